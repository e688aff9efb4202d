"""Programs that start another one, as data: what stands between their name and its command."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Wrapper:
    """How a program's words lead to those of the command that it starts.

    Attributes:
        verbs: what stands behind its name ("run", "job submit"); one of them, where there are any.
        valued: options that take the next word; None: all but ``flags`` do.
        flags: options that take none, where ``valued`` is None.
        operands: words between the options and the command.
        marked: only what stands behind ``--`` is its command.
        text: the command is joined with blanks and read by a shell.
        holds: options whose value is a command for a shell.
        python: the command is what a Python interpreter is given.
        sets: options that set a variable of the command.
        clears: options behind which the command sees no other variable; "*": it never does.
        ranks: options that say how many copies are started; ("",) if nothing says less than many.
        away: where the command runs, if not in this shell's machine and file system.
        fed: without a command, a shell reads its standard input.
        pairs: options that take the next two words.
    """

    verbs: tuple[str, ...] = ()
    valued: tuple[str, ...] | None = ()
    flags: tuple[str, ...] = ()
    operands: int = 0
    marked: bool = False
    text: bool = False
    holds: tuple[str, ...] = ()
    python: bool = False
    sets: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    away: str = ""
    fed: bool = False
    pairs: tuple[str, ...] = ()


def _w(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SLURM = Wrapper(valued=None, ranks=_w("-n --ntasks --ntasks-per-node"), holds=("--wrap",),
                 flags=_w(
    "-E -H -I -K -l -O -Q -s -v -V -X --exclusive --overlap --label --unbuffered -u --verbose "
    "--quiet --no-kill --pty --propagate --contiguous --oversubscribe --overcommit --hold --reboot "
    "--spread-job --use-min-nodes --preserve-env --wait-all-nodes --requeue --no-requeue "
    "--parsable -W --wait --container-mount-home --no-container-mount-home --container-writable "
    "--container-remap-root --no-container-entrypoint --immediate --exact --whole --get-user-env "
    "--kill-on-bad-exit --disable-status --test-only --interactive"))  # fmt: skip
_MPI = Wrapper(ranks=("-np", "-n", "--np", "-c", ""), sets=("-x",),
               pairs=_w("-mca --mca -gmca --gmca -genv -env"), valued=_w(
    "-np -n --np -c -H -host --host -hosts -hostfile --hostfile -machinefile --machinefile -f "
    "-ppn -x -genvlist --bind-to -bind-to --map-by -map-by --rank-by --prefix --wdir -wdir -wd "
    "-npernode --npernode -N -npersocket --output-filename --timeout "
    "-iface -p -rf --rankfile"))  # fmt: skip
_BOX = Wrapper(("run", "exec", "container run", "container exec", "compose run", "compose exec"),
               None, _w(
    "-i -t -d -it -ti -P --rm --init --interactive --tty --detach --privileged --read-only "
    "--no-healthcheck --oom-kill-disable --sig-proxy --publish-all --disable-content-trust -itd "
    "-dit --quiet -q --use-aliases --replace --tls-verify --no-hosts"),
    1, sets=("-e", "--env"), clears=("*",), away="in a container")  # fmt: skip
_SIF = Wrapper(("exec", "run"), _w(
    "-B --bind -H --home --pwd --cwd --env --env-file --overlay -S --scratch -W --workdir --app "
    "--security --mount --network --add-caps -o --fusemount --nvccli-to"), (), 1,
    sets=("--env",), clears=("-e", "--cleanenv", "-C", "--containall"),
    away="in a container")  # fmt: skip
_ENV_RUN = Wrapper(("run",), _w(
    "-n -p --name --prefix --with --python --extra --project --directory --group -e --environment "
    "--cwd -C -P --env-file --package --only-group --with-requirements --index --root-prefix -r "
    "--manifest-path --feature --platform -f"))  # fmt: skip

WRAPPERS: dict[str, Wrapper] = {
    # this machine, this shell's environment
    **dict.fromkeys(("nohup", "setsid", "unbuffer", "catchsegv", "proxychains", "proxychains4",
                     "ltrace", "caffeinate", "compute-sanitizer", "cuda-memcheck", "rocprof",
                     "numad"), Wrapper()),
    "sudo": Wrapper(valued=_w("-u -g -p -C -h -D -R -T -r -t --user --group --chdir"),
                    sets=("",)),
    "env": Wrapper(valued=_w("-u --unset -C --chdir"), holds=("-S", "--split-string"), sets=("",),
                   clears=("-i", "-", "--ignore-environment")),
    "nice": Wrapper(valued=_w("-n --adjustment")), "ionice": Wrapper(valued=_w("-c -n -p")),
    "stdbuf": Wrapper(valued=_w("-i -o -e")), "chrt": Wrapper(operands=1),
    "timeout": Wrapper(valued=_w("-k -s --signal --kill-after"), operands=1),
    "numactl": Wrapper(valued=_w("-N -m -C -p -i --cpunodebind --membind --physcpubind")),
    "taskset": Wrapper(operands=1), "flock": Wrapper(valued=_w("-w -E --timeout"), operands=1,
                                                     holds=("-c", "--command")),
    "prlimit": Wrapper(valued=_w("-p --pid")), "unshare": Wrapper(valued=_w("-S -G -R -w")),
    "chroot": Wrapper(operands=1, away="below another root"),
    "cgexec": Wrapper(valued=("-g",)), "su": Wrapper(operands=9, holds=("-c", "--command")),
    "script": Wrapper(operands=9, holds=("-c", "--command")),
    "systemd-run": Wrapper(valued=_w("-p --property -u --unit --slice -E --setenv -H --uid --gid"),
                           sets=("-E", "--setenv")),
    "strace": Wrapper(valued=_w("-o -e -s -p -P -u -E -a -O -S -b -I -X")),
    "perf": Wrapper(_w("record stat trace"), _w("-o -e -F -c -p -t -C -m -G --call-graph")),
    "gdb": Wrapper(valued=_w("-ex -x -iex -ix -cd -d")),
    "cuda-gdb": Wrapper(valued=_w("-ex -x -iex -ix -cd -d")),
    "nsys": Wrapper(_w("profile launch"), _w(
        "-o -t -s -w -f -e -y -d -c -b -x -p -n -g --output --trace --sample --duration --delay "
        "--capture-range --session-new --backtrace --show-output --force-overwrite --env-var "
        "--gpu-metrics-device --stats --kill --wait --capture-range-end")),
    "ncu": Wrapper(valued=_w("-o --set --section --metrics --kernel-name -k -c --launch-count -s "
                             "--launch-skip --target-processes --export -f --nvtx-include")),
    "py-spy": Wrapper(_w("record top"), _w("-o -r -d -f -p --output --rate --duration --format"),
                      marked=True),
    "msprof": Wrapper(holds=("--application",)),

    **dict.fromkeys(("conda", "mamba", "micromamba", "uv", "poetry", "pixi", "pdm", "hatch", "rye",
                     "pipenv", "hatchling"), _ENV_RUN),
    "uvx": Wrapper(valued=_w("--from --with -p --python")),
    "pipx": Wrapper(("run",), _w("--spec --python")),
    # a Python program that runs a script or a module
    "coverage": Wrapper(("run",), _w("--rcfile --source --omit --include --context --data-file"),
                        python=True),
    "viztracer": Wrapper(valued=_w("-o --output_file --tracer_entries --max_stack_depth"),
                         python=True),
    "scalene": Wrapper(valued=_w("--outfile --profile-interval"), python=True),
    "kernprof": Wrapper(valued=_w("-o -s -u"), python=True),
    "pyinstrument": Wrapper(valued=_w("-o -r -i --outfile --renderer"), python=True),
    "debugpy": Wrapper(valued=_w("--listen --connect --configure-subProcess --log-to"),
                       python=True),
    **dict.fromkeys(("cProfile", "profile"), Wrapper(valued=_w("-o -s"), python=True)),
    **dict.fromkeys(("pdb", "ipdb", "torch.utils.bottleneck", "ipython"),
                    Wrapper(valued=("-c",), python=True)),
    "trace": Wrapper(valued=_w("-f -C --file --coverdir"), python=True),
    # many copies
    "srun": _SLURM, "mpirun": _MPI, "mpiexec": _MPI, "horovodrun": _MPI, "orterun": _MPI,
    "salloc": Wrapper(valued=None, flags=_SLURM.flags), "sbatch": replace(_SLURM, fed=True),
    "flux": Wrapper(_w("run submit batch"), _w(
        "-N -n -c -g -t -q -o -S --nodes --ntasks --cores-per-task --gpus-per-task --env --output "
        "--error --queue --setopt --setattr --job-name"), ranks=("-n", "--ntasks"),
        sets=("--env",)),
    "jsrun": Wrapper(valued=_w("-n -a -c -g -r -b -d -l -E -p --nrs --np"), ranks=("-p", "-n", "")),
    "aprun": Wrapper(valued=_w("-n -N -d -S -cc -e -L"), ranks=("-n",), sets=("-e",)),
    "bsub": Wrapper(valued=_w("-n -o -e -q -J -R -W -m -P -gpu -M -w -app -G")),
    # elsewhere
    **dict.fromkeys(("docker", "podman", "nerdctl"), _BOX),
    **dict.fromkeys(("singularity", "apptainer"), _SIF),
    "enroot": Wrapper(("start",), _w("-c --conf -e --env -m --mount"), operands=1,
                      sets=("-e", "--env"), away="in a container"),
    "kubectl": Wrapper(_w("exec run debug"), marked=True, clears=("*",), away="in a container"),
    "ray": Wrapper(("job submit",), marked=True, clears=("*",), away="on a Ray cluster"),
    "ssh": Wrapper(valued=_w("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B"),
                   operands=1, text=True, fed=True, clears=("*",), away="on another machine"),
    **dict.fromkeys(("at", "batch"), Wrapper(operands=9, fed=True)),
    "sshpass": Wrapper(valued=_w("-p -f -d -P")),
    **dict.fromkeys(("pdsh", "clush"), Wrapper(valued=_w("-w -x -g -l -f -u -t -R"), text=True,
                                               ranks=("",), clears=("*",),
                                               away="on other machines")),
    "tmux": Wrapper(_w("new-session new new-window neww split-window"), _w("-s -n -t -c -x -y -F "
                    "-e -l -p -f"), text=True),
    "screen": Wrapper(valued=_w("-S -c -e -h -p -s -T -t")),
    "rlaunch": Wrapper(marked=True), "wandb": Wrapper(("launch",), marked=True),
}  # fmt: skip
