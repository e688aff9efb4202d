"""Forms of a command that trains, as people start it → the job behind it and its ranks.

None for a form that is not peeled: nobody looked into it, so it is no exit 0.
"""

from __future__ import annotations

FORMS: list[tuple[str, tuple[str, int | None] | None]] = [
    ("flux run -N2 -n 8 swift sft --model x", ("swift sft", None)),
    ("nsys profile -o out --trace=cuda,nvtx swift sft --model x", ("swift sft", 1)),
    ("ncu --set full python train.py", ("train.py", None)),
    ("my_wrapper.sh swift sft --model x", None),
    ("pipenv run swift sft --model x", ("swift sft", 1)),
    ("py-spy record -o x.svg -- swift sft --model x", ("swift sft", 1)),
    ("coverage run -m swift.cli.sft --model x", ("-m swift.cli.sft", None)),
    ("coverage run train.py", ("train.py", None)),
    ("conda run -n e env X=1 swift sft --model x", ("swift sft", 1)),
    ("conda run --no-capture-output -n e swift sft --model x", ("swift sft", 1)),
    ("conda run --live-stream --name e swift sft --model x", ("swift sft", 1)),
    ("env -i swift sft --model x", ("swift sft", 1)),
    ("env -i PATH=/bin A=1 swift sft --model x", ("swift sft", 1)),
    ("env -u FOO swift sft --model x", ("swift sft", 1)),
    ("env -S 'A=1 swift sft --model x'", ("swift sft", 1)),
    ("bash -c 'swift sft --model x'", ("swift sft", 1)),
    ('bash -lc "swift sft --model x"', ("swift sft", 1)),
    ("bash -l -c 'NPROC_PER_NODE=2 swift sft --model x'", ("swift sft", 2)),
    ("sh -ec 'swift sft --model x'", ("swift sft", 1)),
    ("eval 'swift sft --model x'", ("swift sft", 1)),
    ("srun swift sft --model x", ("swift sft", 1)),
    ("srun -N 2 --ntasks-per-node 1 --gres gpu:8 torchrun --nproc_per_node 8 t.py", ("t.py", 8)),
    ("srun --nodes=2 -n2 bash -c 'torchrun --nproc_per_node 8 t.py'", ("t.py", 8)),
    (
        "srun --container-image=x --container-mounts=/a:/b torchrun --nproc_per_node 8 t.py",
        ("t.py", 8),
    ),
    ("srun python t.py", ("t.py", None)),
    ("sbatch --wrap 'swift sft --model x'", ("swift sft", 1)),
    ('sbatch -N 2 --wrap="torchrun --nproc_per_node 8 t.py"', ("t.py", 8)),
    ("sbatch train.sh", None),
    ("docker run --gpus all --rm -v /a:/b img swift sft --model x", ("swift sft", 1)),
    (
        "docker run -it --shm-size 16g --network=host img bash -c 'swift sft --model x'",
        ("swift sft", 1),
    ),
    ("docker exec -it c swift sft --model x", ("swift sft", 1)),
    ("docker compose run svc swift sft --model x", ("swift sft", 1)),
    ("podman run --rm img torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("singularity exec --nv -B /a:/b img.sif swift sft --model x", ("swift sft", 1)),
    ("apptainer exec --nv img.sif torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("enroot start --rw c swift sft --model x", ("swift sft", 1)),
    ("mpirun -np 4 python t.py", ("t.py", None)),
    ("mpirun -np 4 -H a:2,b:2 -x NCCL_DEBUG=INFO swift sft --model x", ("swift sft", None)),
    ("mpiexec -n 4 python t.py", ("t.py", None)),
    ("kubectl exec pod -- swift sft --model x", ("swift sft", 1)),
    ("kubectl exec -it pod -c c -- torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("kubectl run x --image=i -- swift sft --model x", ("swift sft", 1)),
    ("ssh host swift sft --model x", ("swift sft", 1)),
    ("ssh -p 22 -o A=b u@host 'cd /x && NPROC_PER_NODE=2 swift sft --model x'", ("swift sft", 2)),
    ("pdsh -w a,b torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("tmux new-session -d -s x 'swift sft --model x'", ("swift sft", 1)),
    ("screen -dmS x swift sft --model x", ("swift sft", 1)),
    ("salloc -N 1 swift sft --model x", ("swift sft", 1)),
    ("ray job submit -- swift sft --model x", ("swift sft", 1)),
    ("ray job submit --working-dir . -- torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("xargs -n 1 swift sft --model", None),
    ("parallel swift sft --model ::: a b", None),
    ("find . -exec swift sft --model {} ;", None),
    ("nohup swift sft --model x &", ("swift sft", 1)),
    ("timeout 3h swift sft --model x", ("swift sft", 1)),
    ("timeout -s KILL --kill-after=5 3h swift sft --model x", ("swift sft", 1)),
    ("numactl --cpunodebind=0 --membind=0 swift sft --model x", ("swift sft", 1)),
    ("numactl -N 0 -m 0 swift sft --model x", ("swift sft", 1)),
    ("taskset -c 0-7 swift sft --model x", ("swift sft", 1)),
    ("nice -n 5 swift sft --model x", ("swift sft", 1)),
    ("nice -5 swift sft --model x", ("swift sft", 1)),
    ("ionice -c 2 -n 0 swift sft --model x", ("swift sft", 1)),
    ("stdbuf -oL swift sft --model x", ("swift sft", 1)),
    ("time swift sft --model x", ("swift sft", 1)),
    ("/usr/bin/time -v swift sft --model x", ("swift sft", 1)),
    ("strace -f -o x swift sft --model x", ("swift sft", 1)),
    ("gdb --args python t.py", ("t.py", None)),
    ("gdb -batch -ex run --args swift sft --model x", ("swift sft", 1)),
    ("compute-sanitizer swift sft --model x", ("swift sft", 1)),
    ("viztracer -o x t.py", ("t.py", None)),
    ("scalene t.py", ("t.py", None)),
    ("kernprof -l t.py", ("t.py", None)),
    ("pyinstrument t.py", ("t.py", None)),
    ("python -m cProfile -o x t.py", ("t.py", None)),
    ("python -m pdb t.py", ("t.py", None)),
    ("python -m torch.utils.bottleneck t.py", ("t.py", None)),
    ("python -X faulthandler t.py", ("t.py", None)),
    ("python -Xfaulthandler -W ignore t.py", ("t.py", None)),
    ("python -m debugpy --listen 5678 --wait-for-client t.py", ("t.py", None)),
    ("python -m debugpy --listen 5678 -m swift.cli.sft --model x", ("-m swift.cli.sft", None)),
    ("debugpy --listen 5678 t.py", ("t.py", None)),
    ("ipython t.py", ("t.py", None)),
    ("poetry run swift sft --model x", ("swift sft", 1)),
    ("pdm run swift sft --model x", ("swift sft", 1)),
    ("uv run swift sft --model x", ("swift sft", 1)),
    ("uv run --with x -p 3.11 python t.py", ("t.py", None)),
    ("uvx swift sft --model x", ("swift sft", 1)),
    ("pixi run swift sft --model x", ("swift sft", 1)),
    ("hatch run swift sft --model x", ("swift sft", 1)),
    ("rye run swift sft --model x", ("swift sft", 1)),
    ("mamba run -n e swift sft --model x", ("swift sft", 1)),
    ("micromamba run -n e swift sft --model x", ("swift sft", 1)),
    ("conda run -p /e bash -c 'swift sft --model x'", ("swift sft", 1)),
    ("sudo -E swift sft --model x", ("swift sft", 1)),
    ("sudo -u me -E swift sft --model x", ("swift sft", 1)),
    ("su me -c 'swift sft --model x'", ("swift sft", 1)),
    ("chroot /x swift sft --model x", ("swift sft", 1)),
    ("systemd-run --user --scope -p MemoryMax=1G swift sft --model x", ("swift sft", 1)),
    ("cgexec -g memory:x swift sft --model x", ("swift sft", 1)),
    ("dotenv run -- swift sft --model x", None),
    ("dotenv -f .env run swift sft --model x", None),
    ("wandb launch -- swift sft --model x", ("swift sft", 1)),
    ("wandb agent x/y/z", None),
    ("accelerate-launch --num_processes 2 t.py", ("t.py", 2)),
    ("jsrun -n 1 -a 1 swift sft --model x", ("swift sft", 1)),
    ("aprun -n 4 swift sft --model x", ("swift sft", None)),
    ("bsub -n 4 -o x swift sft --model x", ("swift sft", 1)),
    ("qsub -l x swift.sh", None),
    ("condor_run swift sft --model x", None),
    ("sky launch -c x 'swift sft --model x'", None),
    ("modal run train.py", None),
    ("horovodrun -np 4 python t.py", ("t.py", None)),
    ("torchx run -s local dist.ddp -j 1x2 --script t.py", None),
    ("torchpippy t.py", None),
    ("deepspeed --num_gpus 2 --no_python swift sft --model x", ("swift sft", 1)),
    ("rlaunch --gpu=8 -- torchrun --nproc_per_node 8 t.py", ("t.py", 8)),
    ("dlrover-run --nproc_per_node=8 t.py", ("t.py", 8)),
    ("hfai python t.py -- -n 2", None),
    ("script -c 'swift sft --model x' log", ("swift sft", 1)),
    ("flock /tmp/l swift sft --model x", ("swift sft", 1)),
    ("unshare -n swift sft --model x", ("swift sft", 1)),
    ("catchsegv swift sft --model x", ("swift sft", 1)),
    ("setsid swift sft --model x", ("swift sft", 1)),
    ("exec swift sft --model x", ("swift sft", 1)),
    ("command swift sft --model x", ("swift sft", 1)),
    ("caffeinate -i swift sft --model x", ("swift sft", 1)),
    ("prlimit --nofile=9999 swift sft --model x", ("swift sft", 1)),
    ("ltrace swift sft --model x", ("swift sft", 1)),
    ("perf record swift sft --model x", ("swift sft", 1)),
    ("rocprof swift sft --model x", ("swift sft", 1)),
    ('msprof --application="swift sft --model x"', ("swift sft", 1)),
    ("until swift sft --model x; do sleep 1; done", ("swift sft", 1)),
    (". ./env.sh && swift sft --model x", ("swift sft", 1)),
    ("swift sft --model x | tee log", ("swift sft", 1)),
    ("swift sft --model x 2>&1 | tee log", ("swift sft", 1)),
    ("echo swift sft --model x | bash", ("swift sft", 1)),
    ("bash <<< 'swift sft --model x'", ("swift sft", 1)),
    ("bash <(echo swift sft --model x)", ("swift sft", 1)),
    ("new_launcher --gpus 8 t.py", None),
    ("new_launcher --gpus 8 train.py", None),
    ("memray run src/finetune_vlm.py --lr 1", None),
    ("my_wrapper sft", None),
    ("xtuner train config.yaml", None),
    ("stdbuf -oL -eL nohup nice -n 5 swift sft --model x", ("swift sft", 1)),
    ("srun -n 1 nsys profile -o x torchrun --nproc_per_node 2 t.py", ("t.py", 2)),
    ("python -m mypkg.train", ("-m mypkg.train", None)),
    ("python -c 'from swift.llm import sft_main; sft_main()'", None),
    ("bash missing.sh", None),
    ("dvc repro", None),
    ("mlflow run . -P lr=1", None),
    ("jupyter nbconvert --to html --execute n.ipynb", None),
    ("python -c 'import mypkg.train; mypkg.train.main()'", None),
    ("python -c \"import os; os.system('swift sft --model x')\"", None),
    # options that no table has, with a value behind them and without
    ("nsys profile -t cuda --stop-on-exit true -o r swift sft --model x", ("swift sft", 1)),
    ("uv run --with-editable . swift sft --model x", ("swift sft", 1)),
    ("uv run --extra-index-url http://x/y swift sft --model x", ("swift sft", 1)),
    ("numactl --interleave all swift sft --model x", ("swift sft", 1)),
    ("stdbuf --output L swift sft --model x", ("swift sft", 1)),
    ("mpirun --allow-run-as-root -np 1 -mca btl self swift sft --model x", ("swift sft", 1)),
    ("nsys profile --new-option true new_launcher train.py", None),
    ("docker run --new-flag img torchrun --nproc_per_node 2 t.py", None),
    ("mpirun -np 1 swift sft --model x : -np 1 swift sft --model y", None),
    # options in front of what the program does
    ("docker --context c run --rm img swift sft --model x", ("swift sft", 1)),
    ("kubectl -n ns exec pod -- swift sft --model x", ("swift sft", 1)),
    ("poetry -C . run swift sft --model x", ("swift sft", 1)),
    ("hatch -e cuda run swift sft --model x", ("swift sft", 1)),
    ("bash --login -c 'swift sft --model x'", ("swift sft", 1)),
    # a shell that reads its standard input
    ("sbatch <<'EOF'\n#!/bin/bash\nswift sft --model x\nEOF", ("swift sft", 1)),
    ("ssh host <<EOF\nswift sft --model x\nEOF", ("swift sft", 1)),
    ("echo 'swift sft --model x' | at now", ("swift sft", 1)),
    ("batch <<< 'swift sft --model x'", ("swift sft", 1)),
]

# What trains nothing, with words of training in it: exit 0.
QUIET = """
pip install deepspeed flash-attn ms-swift[all]
pip3 install -e .
git clone https://github.com/x/finetune.git
wget https://x/y/train.py
cp train.py backup/train.py
sed -i s/a/b/ train.py
tail -f finetune.log
ls swift/cli/sft.py
get_data --split train.json --out data/train
black train.py
pytest tests/train.py
pkill -f torchrun
mkdir -p output/swift sft
conda activate swift
conda install pytorch
module load cuda
nvidia-smi
hf download a/b --local-dir train
python -m pip install deepspeed
python -m venv e
python -m json.tool x.json
python -c 'import torch; print(torch.__version__)'
python -c 'from sklearn.model_selection import train_test_split'
python -c 'from datasets import load_dataset; load_dataset("x", split="train")'
dvc pull
python --version
accelerate config
tensorboard --logdir output
rsync -a train.py host:/x
chmod +x train.sh
scancel 1
swift infer --model x
env
echo swift sft --model x
export WORLD_SIZE=8
""".strip().splitlines()
