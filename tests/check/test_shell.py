# ruff: noqa: E501 (one snippet a line)
"""The script reader says what bash says. The oracle is bash itself, on harmless snippets."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from vlmguard.check.shell.evaluate import evaluate

SNIPPETS = r"""
a=1; b="$a 2"; echo $b "$b" '$b' \$b
echo {a,b}{1,2} {1..4} {01..03} {a..c} x{,y} {1..9..3} "{a,b}" {a}
x=a.b.c; echo ${x%.*} ${x%%.*} ${x#*.} ${x##*.} ${#x} ${x/./-} ${x//./-} ${x/#a/z} ${x/%c/z}
x=hello; echo ${x:1} ${x:1:2} ${x: -3} ${x:0:-1} ${x^} ${x^^} ${x:(-2)}
unset y; echo "${y:-d}" "${y-e}" "${y:+f}" "[${y}]"; y=; echo "[${y-e}]" "[${y:-e}]" "${y+set}"
: ${z:=5}; echo $z; echo ${z:?no}
n=x; x=9; echo ${!n}; arr=(1 2 3); i=arr[1]; echo ${!i}
a=(x "y z" w); echo ${#a[@]} ${a[1]} "${a[@]}" ${a[*]} "${a[-1]}"; a+=(v); echo ${a[3]}; a[7]=q; echo ${#a[@]}
a=(1 2 3 4); echo "${a[@]:1:2}" ${a[@]: -1} ${#a[1]}; unset a[0]; echo "${a[@]}" "${a[@]/2/9}"
declare -A m; m[k]=v; m[l]="w x"; echo ${m[k]} ${m["l"]} ${#m[@]}
declare -A m=([a]=1 [b]=2); echo ${m[a]} ${m[b]}
for i in 1 2 3; do echo -n "$i "; done; echo
for ((i=0;i<3;i++)); do echo -n $i; done; echo
i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i -eq 2 ] && continue; echo $i; done
until [[ $i -le 0 ]]; do ((i--)); done; echo $i
for i in a b; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done
case abc.yaml in *.json) echo j;; *.y?ml|*.yml) echo y;; *) echo o;; esac
case x in x) echo 1;& y) echo 2;; z) echo 3;; esac
f() { echo "$1-$#-$@"; return 3; }; f a "b c"; echo $?
f() { local v=2; echo $v; }; v=1; f; echo $v
echo $((1+2*3)) $((7/2)) $((-7/2)) $((-7%3)) $((2**10)) $((1<<4)) $((5>3?1:0)) $((0x10)) $((010)) $((1==1 && 2>3))
x=5; ((x+=2)); echo $x $((x++)) $x $((++x)) $((x--)); let y=x*2; echo $y
a=5; b=a; echo $((b+1)) $(( (1+2)*3 )) $((~0)) $((!3)) $((10%3))
echo $(echo a; echo b) "$(echo a; echo b)" `echo c` "`echo d`" $(echo $(echo e))
cat <<EOF
x=$((1+1)) $(echo hi) \$y "q"
EOF
cat <<'EOF'
$x `y` \z
EOF
cat <<-EOF
	tabbed
	EOF
cat <<< "here $((2))"
echo a b c | cut -d' ' -f2; echo a,b | tr ',' '\n' | wc -l; echo x | grep -q x && echo yes; echo "0,1,2,3" | awk -F',' '{print NF}'
printf '%s-%d\n' a 1 b 2; printf '%03d|%5s|%-5s|%.2f\n' 7 ab cd 1.5; printf -v v '%s' z; echo $v
read a b <<< "1 2 3"; echo "$a|$b"; IFS=, read -ra p <<< "x,y,z"; echo ${#p[@]} ${p[2]}
IFS=:; x=a:b:c; set -- $x; echo $# $2; unset IFS; set -- "a b" c; echo $# "$1"; shift; echo $1
[[ abc == a* ]] && echo m; [[ abc == "a*" ]] || echo n; [[ a < b && ! 2 -gt 3 ]] && echo o; [[ x1y =~ ([0-9]) ]] && echo ${BASH_REMATCH[1]}
[ -z "" -a 1 -eq 1 ] && echo p; [ "a" != "b" ] && echo q; [ ! -f /nonexistent ] && echo r; [ -d / ] && echo s; test -n x && echo t
if false; then echo 1; elif true; then echo 2; else echo 3; fi
true && echo a || echo b; false && echo a || echo b; ! false; echo $?
(x=2; echo $x; exit 4); echo $? $x
{ echo g; } ; x=1; { x=2; }; echo $x
set -- a b c; for i; do echo -n $i; done; echo; echo "$*" "${@:2}" ${#} ${@: -1}
x=$'a\tb\x41'; echo "$x"; echo -e 'a\tb'; echo -n z; echo
echo a"b"'c'\ d "e\"f" "\$x" 'it'"'"'s'
eval 'x=3; echo $x'; y='echo hi'; $y; eval "$y" there
echo ~ | grep -c /; cd /; pwd; echo $PWD; cd /usr; cd ..; pwd; cd - >/dev/null; pwd
while read -r l; do echo "<$l>"; done < <(true); printf 'a\nb\n' | while read -r l; do echo "<$l>"; done
x="a  b"; echo $x "$x"; y=$x; echo "$y"; set -- $x; echo $#
mapfile -t L <<< $'p\nq'; echo ${#L[@]} ${L[1]}
X=1 Y=2; export X; bash -c 'echo [$X$Y]'; Z=3 bash -c 'echo $Z'; echo [$Z]
bash -c 'echo $0 $1' n m; sh -c "echo $X"
basename /a/b.json .json; dirname /a/b; seq 3; seq 2 2 6; seq -s, 3; expr 2 + 3; expr 4 \* 5
g() { if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(g $(($1-1))) )); fi; }; g 5
a=1,2,3; IFS=',' read -r -a q <<< "$a"; echo ${#q[@]}; n=${a//[^,]}; echo $((${#n}+1))
while [[ $# -gt 0 ]]; do shift; done; set -- --n 4 --m; while (( $# )); do case "$1" in --n) N=$2; shift 2;; *) M=1; shift;; esac; done; echo $N $M
while getopts "a:b" o -a 1 -b; do echo $o$OPTARG; done
v="x y"; w=("$v" z); printf '<%s>' "${w[@]}"; echo; printf '<%s>' ${w[@]}; echo
echo "${x:+"quoted word"}" ${x:+a b}; e=(); printf '<%s>' "${e[@]}" "${e[@]:-none}"; echo
#comment
echo a # b
echo a#b; echo 'multi
line'; echo con\
tinued
time true; ! true; echo $?; :; true; echo $?
command echo c; builtin echo b; command -v echo >/dev/null && echo found; type cd >/dev/null && echo cd
function h { echo h; }; h; h2 () ( echo sub ); h2
x=abc; [[ $x =~ ^a.c$ ]] && echo re; y=a.c; [[ $x =~ $y ]] && echo re2; [[ "a b" == *" "* ]] && echo sp
echo $'\'' "a'b" "$(echo "nested \"q\"")" "${x:-"$(echo d)"}"
trap 'echo bye' EXIT; trap - EXIT; set -euo pipefail; echo ok; x=$(false) || echo failed
echo "$((  $(echo 3) * 2 ))" $(( ${x:+1} + 1 )) $[1+1]
A=(); A+=("--x" 1); A+=(--y "2 3"); echo "${#A[@]}" "${A[@]}"; B=("${A[@]}" z); echo ${#B[@]}
: "${Q:=dflt}" ; echo "$Q"; readonly R=1; echo $R; declare -i k=2+3; echo $k; export E1=a E2="b c"; echo "$E2"
if [[ -n "${NOPE:-}" || "${Q}" == d* ]]; then echo yes; fi; [ "$Q" == "dflt" ] && echo eq
echo a | { read -r v; echo "got $v"; }; echo x y | (read a b; echo $b)
echo abcabc | sed 's/b/X/g'; echo a:b:c | cut -d: -f2-; printf '3\n1\n2\n' | sort -rn | head -1; echo A | tr A-Z a-z
"""


def snippets():
    """Lines; a here-document or an open quote belongs to the line that began it."""
    found, open_ = [], ""
    for line in SNIPPETS.strip().splitlines():
        if open_ or (line.startswith("cat <<") and "<<<" not in line):
            found[-1:] = (
                [f"{found[-1]}\n{line}"] if open_ else [found[-1], line] if found else [line]
            )
            open_ = "" if line.strip() == "EOF" else "open"
        elif found and (found[-1].endswith("'multi") or found[-1].endswith("\\")):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is the oracle")
@pytest.mark.parametrize("snippet", snippets())
def test_like_bash(snippet, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
    said = subprocess.run(
        ["bash", "-c", snippet], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=100
    ).stdout
    # what the reader's own echo says is seen by putting it into a substitution
    script = f"OUT=$(\n{snippet}\n)\nexport OUT\nmet"
    trace, _ = evaluate(script, "bash", str(tmp_path), env)
    assert not trace.refused
    assert trace.calls[-1].env["OUT"] == said.rstrip("\n")
