"""What was to be started was not: refused by a scheduler or a container's runtime, or not found."""

from __future__ import annotations

from vlmguard.explain.catalogue import vg537_driver
from vlmguard.explain.failure import Do, Example, Known, Sign
from vlmguard.explain.logfacts import Facts

# The shell's words for any other command may be about a side path ("module: command not found").
_STARTERS = (
    "accelerate",
    "torchrun",
    "deepspeed",
    "llamafactory-cli",
    "swift",
    "axolotl",
    "xtuner",
    "trl",
    "mpirun",
    "srun",
    "python",
    "python3",
    "apptainer",
    "singularity",
    "docker",
    "podman",
    "enroot",
    "ray",
)


_SCHEDULER = (
    Do(
        "the options behind 'switch to' in that line, in place of the one that it names",
        "none",
        when=("please switch to", "instead use", "use --"),
        kind="gres",
    ),
    Do(
        "unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU "
        "SLURM_MEM_PER_GPU, in front of srun in the batch script",
        "none",
        when=("set by two different", "mutually exclusive"),
    ),
    Do(
        "srun --cpu-bind=none …, or unset SLURM_CPU_BIND in front of it",
        "none",
        when=("cpu bind", "CPU bind"),
    ),
    Do(
        "sbatch --version; sbatch --help | grep -e {flag}: an older Slurm spells it otherwise "
        "(--gres=gpu:8 for --gpus-per-node=8)",
        "none",
        when=("unrecognized option", "nvalid option"),
    ),
    Do(
        "scontrol show node | grep -i gres, then --gres=gpu:TYPE:COUNT with a type that "
        "stands there",
        "none",
        when=("GPU", "gpu", "gres", "GRES"),
        kind="gres",
    ),
    Do(
        "sacctmgr show assoc user=$USER format=account%30,partition,qos, then "
        "--account=ONE_OF_THEM",
        "none",
        when=("ccount",),
    ),
    Do(
        "the line itself names what was refused; sinfo -o '%P %G %l %m' shows what there is, "
        "sbatch --test-only job.sh tries a script without running it",
        "none",
    ),
    Do(
        "inside a job, unset what the batch script's own options left behind and contradicts "
        "srun's (SLURM_CPUS_PER_TASK, SLURM_MEM_PER_NODE, SLURM_TRES_PER_TASK), or say the "
        "same in both",
        "none",
    ),
)
_CONTAINER = (
    Do(
        "nvidia-smi on the host, then nvidia-ctk runtime configure --runtime=docker and a "
        "restart of docker",
        "none",
    ),
    Do("the image by hand (docker pull, kubectl describe pod): its name and who may read it"),
)
_COMMAND = (
    Do(
        "docker run -e FORCE_TORCHRUN=1 … llamafactory-cli train …, or env "
        "FORCE_TORCHRUN=1 llamafactory-cli …: without a shell a name with = is taken for "
        "the program",
        "none",
        when=(
            "=1: not found",
            "exec: FORCE_TORCHRUN",
        ),
        kind="there",
    ),
    Do(
        "docker run --rm --entrypoint sh {pulled} -c 'command -v {command} python': the image has "
        "no {command}: another image (one with the framework), or the whole path of the program, "
        "as command: of the pod; then kubectl apply again",
        "none",
        when=("executable file not found",),
        kind="there",
    ),
    Do(
        "command -v {command}, in the job script: nothing: conda activate ENV (or source "
        "ENV/bin/activate) in front of that line; still nothing: python -m pip install "
        "{commandpackage}",
        "none",
        when=(
            "ommand not found",
            ": not found",
            "executable file not found",
            "未找到命令",
        ),
        kind="there",
    ),
    Do(
        "ls -l {folder}: is the script there under another name? its right name, or cd to "
        "where it lies",
        "none",
        when=("can't open file",),
        kind="there",
    ),
    Do(
        "ls -l {path}, in the job: cd to the folder where it lies, or give its whole path",
        "none",
        kind="there",
    ),
    Do(
        "command -v {command}, in the job: activate the environment there (source …/activate, "
        "conda activate NAME), or python -m pip install what brings it",
        "none",
        kind="there",
    ),
    Do(
        "command -v torchrun and ls of the script, in the job: activate the environment there, "
        "cd to the working directory",
        "none",
        kind="there",
    ),
    Do("chmod +x and a first line #!/bin/bash, where a script itself is started", "none"),
)


def _contained(line: str) -> bool:
    words = ("ontainer", "daemon", "mage", "FATAL", "OCI", "device driver")
    inside = "executable file not found" in line or "_entrypoint.sh" in line
    return any(word in line for word in words) and not inside


def _absent(line: str) -> bool:
    words = (
        "not found",
        "o such file",
        "没有那个文件",
        "nknown command",
        "未找到命令",
        "interpreter",
        "open file",
        "execve",
        "不是内部",
        "cmdlet",
        "external command",
    )
    return any(word in line for word in words)


def _pending(line: str) -> bool:
    return "FailedScheduling" in line or "nodes are available" in line


_PENDING = (
    Do(
        'tolerations: [{key: "nvidia.com/gpu", operator: "Exists"}] under spec: of the pod (its '
        "template, in a job): the nodes with cards bear that taint, and this pod does not tolerate "
        "it",
        "none",
        when=("taint {nvidia.com/gpu",),
        kind="nodes",
    ),
    Do(
        "kubectl describe nodes | grep -E '^Name:|nvidia.com/gpu|Taints:': how many cards each "
        "node has and has given away: fewer in resources.limits, or wait until a job ends; none "
        "anywhere: the device plugin does not run there",
        "none",
        kind="look",
    ),
    Do(
        "kubectl get pods -A -o wide | grep -v -E 'Completed|kube-system': whose pods hold them",
        "none",
    ),
)


def _why(facts: Facts) -> str:
    if _pending(facts.message):
        return (
            "the pod waits: no node has what it asks for and lets it in; nothing of the training "
            "ran yet"
        )
    if _contained(facts.message):
        return (
            "the container was not started: its image cannot be had, or the machine gives it no "
            "GPU (no driver, no NVIDIA container toolkit); nothing of the training ran"
        )
    if _absent(facts.message):
        return (
            "the program or script that the job names is not there or cannot be run: another "
            "environment, another working directory, a misspelt path; nothing of the training ran"
        )
    return (
        "the scheduler refused what the job asked for (GPU type or number, partition, account, "
        "memory, options that contradict each other); nothing of the training ran"
    )


_HOSTS = Do(
    "one machine: the same command without --hostfile, --include and --exclude; several: ls -l "
    "HOSTFILE, one name a line, from the folder where the job starts",
    "none",
    when=("hostfile", "hosts are mutually"),
)


def _do(facts: Facts) -> tuple[Do, ...]:
    if "mismatched" in facts.said:
        return vg537_driver.UPDATED
    if _pending(facts.message):
        return _PENDING
    if _contained(facts.message):
        return _CONTAINER
    return (_HOSTS, *(_COMMAND if _absent(facts.message) else _SCHEDULER))


FAILURE = Known(
    code="VG590",
    name="explain-not-started",
    title="The job's program was never started",
    zh="作业程序没有启动（调度系统或容器拒绝，或找不到命令/脚本）",
    why=_why,
    do=_do,
    wrong="If lines of the training follow, the program did start: look at what those say.",
    signs=(
        Sign("failed to create process.", where="line", releases="Windows' launchers"),
        Sign("export: `", where="line", also=("not a valid identifier",)),
        Sign("salloc: error: Job submit/allocate failed", where="line", releases="Slurm"),
        Sign("qsub: would exceed", where="line", releases="PBS"),
        Sign("qsub: submit error", where="line", releases="PBS"),
        Sign("Batch job submission failed", where="line", releases="Slurm"),
        Sign("Unable to create step for job", where="line", no=("completing",), releases="Slurm"),
        Sign("Unable to allocate resources: ", where="line", releases="Slurm"),
        Sign("sbatch: error: ", where="line", no=("spank",), releases="Slurm"),
        Sign("srun: fatal: ", where="line", releases="Slurm"),
        Sign("sbatch: fatal: ", where="line", releases="Slurm"),
        Sign("srun: unrecognized option", where="line", releases="Slurm"),
        Sign("sbatch: unrecognized option", where="line", releases="Slurm"),
        Sign("srun: error: Application launch failed", where="line", releases="Slurm"),
        Sign("srun: error: Task launch for", where="line", releases="Slurm"),
        Sign("slurmstepd: error: execve()", where="line", releases="Slurm"),
        Sign("slurmstepd: error: pyxis", where="line", releases="Slurm with pyxis"),
        Sign("Unable to satisfy cpu bind request", where="line", releases="Slurm"),
        Sign("sbatch: error"),
        Sign("srun: error: Unable to"),
        Sign("qsub: ", where="line", also=("rror",), releases="PBS, SGE"),
        Sign("Job rejected by all possible destinations", where="line", releases="PBS"),
        Sign("Unable to run job: ", where="line", releases="SGE"),
        Sign("Job not submitted.", where="line", releases="LSF, Slurm"),
        Sign("Request aborted by esub", where="line", releases="LSF"),
        Sign("Unable to find the hostfile, no such file", where="line", releases="ColossalAI"),
        Sign(
            "found duplicate host", where="line", also=("in the hostfile",), releases="ColossalAI"
        ),
        Sign(
            "not found in hostfile", where="line", also=("Error: Hostname",), releases="ColossalAI"
        ),
        Sign("hosts are mutually exclusive", where="line", releases="ColossalAI"),
        Sign("Did you use a wrong option? Try colossalai run", where="line"),
        Sign("could not select device driver", where="line", releases="docker"),
        Sign("nvidia-container-cli: ", where="line", releases="NVIDIA container toolkit"),
        Sign("OCI runtime create failed", where="line", releases="docker, containerd"),
        Sign("failed to create shim task", where="line", releases="docker, containerd"),
        Sign("docker: Error response from daemon", where="line"),
        Sign("Cannot connect to the Docker daemon", where="line"),
        Sign("Unable to find image '", where="line", also=("rror",)),
        Sign("ImagePullBackOff", where="line", releases="Kubernetes"),
        Sign("ErrImagePull", where="line", releases="Kubernetes"),
        Sign("Failed to pull image", where="line", releases="Kubernetes"),
        Sign("CreateContainerConfigError", where="line", releases="Kubernetes"),
        Sign("CreateContainerError", where="line", releases="Kubernetes"),
        Sign("RunContainerError", where="line", releases="Kubernetes"),
        Sign("UnexpectedAdmissionError", where="line", releases="Kubernetes"),
        Sign("FailedScheduling", where="line", releases="Kubernetes"),
        Sign("Insufficient nvidia.com/gpu", where="line", releases="Kubernetes"),
        Sign("While making image from oci registry", where="line", releases="Apptainer"),
        Sign("while loading runtime", where="line", also=("FATAL",), releases="Apptainer"),
        Sign("could not open image", where="line", also=("FATAL",), releases="Apptainer"),
        Sign("container creation failed", where="line", releases="Apptainer, Singularity"),
        Sign(": executable file not found in $PATH", where="line", releases="Apptainer, docker"),
        Sign("nvidia_entrypoint.sh: line ", where="line", also=(": exec: ", "not found")),
        Sign(": bad interpreter: ", where="line", releases="bash"),
        Sign("requires at least 1 arg(s), only received", where="line", releases="Apptainer"),
        Sign("EnvironmentNameNotFound", releases="conda"),
        Sign("Could not find conda environment", where="line", releases="conda"),
        Sign(": can't open file '", where="line", also=("python", "[Errno 2]")),
        *(Sign(f"{name}: command not found", where="line") for name in _STARTERS),
        *(Sign(f": {name}: not found", where="line") for name in _STARTERS),
        *(Sign(f"{name}: 未找到命令", where="line") for name in _STARTERS),
        Sign("is not recognized as an internal or external command", where="line"),
        Sign("is not recognized as the name of a cmdlet", where="line"),
        Sign("不是内部或外部命令", where="line"),
        Sign("项识别为 cmdlet", where="line"),
        Sign("cannot execute binary file", where="line"),
        Sign("Exec format error"),
        Sign("/bin/bash^M: bad interpreter", where="line"),
    ),
    examples=(
        Example(
            "srun: error: Unable to create step for job 4242: Invalid generic resource (gres) "
            "specification",
            "slurm/src/srun/libsrun/srun_job.c, 24.05",
        ),
        Example(
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]].",
            "moby's own text, docker 20.10",
        ),
        Example(
            "/var/spool/slurmd/job4242/slurm_script: line 110: accelerate: command not found",
            "bash's own text",
        ),
    ),
    evidence="Slurm's, docker's, Kubernetes' and bash's own messages.",
    narrow=2,
)
