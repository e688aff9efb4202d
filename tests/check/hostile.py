# ruff: noqa: E501 (one snippet a line)
"""Scripts that do something as soon as anything executes them: real bash leaves ``$CANARY``.

Each is one way past a guard: a trap taken away, a redirection that opens before the command is
skipped, a program that runs another, a name that hides.
"""

from __future__ import annotations

_LINES = r"""
touch "$CANARY"
> "$CANARY"
: > "$CANARY"
: >> "$CANARY"
echo x > "$CANARY"
printf x >| "$CANARY"
echo x &> "$CANARY"
echo x >& "$CANARY"
true 2> "$CANARY"
exec > "$CANARY"
exec 3<> "$CANARY"
{ :; } > "$CANARY"
( : ) > "$CANARY"
for i in 1; do :; done > "$CANARY"
while false; do :; done 2> "$CANARY"
if true; then :; fi >> "$CANARY"
case x in x) :;; esac > "$CANARY"
[[ 1 == 1 ]] > "$CANARY"
(( 1 )) > "$CANARY"
f() { :; } > "$CANARY"; f
f() { :; }; f > "$CANARY"
local_=1 > "$CANARY"
eval 'touch "$CANARY"'
eval "$(printf 'touch "%s"' "$CANARY")"
X=touch; $X "$CANARY"
X='touch '; $X "$CANARY"
t''ouch "$CANARY"
\touch "$CANARY"
$'\x74ouch' "$CANARY"
/usr/bin/t?uch "$CANARY" 2>/dev/null || /bin/t?uch "$CANARY"
X=$(touch "$CANARY")
X=`touch "$CANARY"`
echo "$(touch "$CANARY")"
echo ${X:-$(touch "$CANARY")}
: ${X:=$(touch "$CANARY")}
cat <(touch "$CANARY") > /dev/null
echo x > >(cat > "$CANARY"); sleep 0.1
read -r x < <(touch "$CANARY")
cat <<< "$(touch "$CANARY")"
touch "$CANARY" & wait
( touch "$CANARY" & wait )
coproc touch "$CANARY"; wait
true && touch "$CANARY"
false || touch "$CANARY"
! touch "$CANARY"
if touch "$CANARY"; then :; fi
until touch "$CANARY"; do :; done
case $(touch "$CANARY") in *) ;; esac
[[ $(touch "$CANARY") ]] || true
echo $(( $(touch "$CANARY"; echo 1) + 1 ))
a='x[$(touch "$CANARY")]'; echo $((a)) 2>/dev/null
a='x[$(touch "$CANARY")]'; (( a )) 2>/dev/null
a='x[$(touch "$CANARY")]'; let a+=1 2>/dev/null
a='x[$(touch "$CANARY")]'; [[ a -eq 1 ]] 2>/dev/null
a='x[$(touch "$CANARY")]'; declare -i b=a 2>/dev/null
a='x[$(touch "$CANARY")]'; y=(1); echo ${y[a]} 2>/dev/null
a='x[$(touch "$CANARY")]'; echo "${!a}" 2>/dev/null
a='x[$(touch "$CANARY")]'; z=abc; echo ${z:a} 2>/dev/null
a='$(touch "$CANARY")'; echo "${a@P}"
PS4='$(touch "$CANARY")'; set -x; : 2>/dev/null
trap 'touch "$CANARY"' EXIT
trap 'touch "$CANARY"' DEBUG; :
trap 'touch "$CANARY"' ERR; false
trap - DEBUG; touch "$CANARY"
set +T; shopt -u extdebug; touch "$CANARY"
set +e; unset -f __vg command_not_found_handle; touch "$CANARY"
touch() { command touch "$@"; }; touch "$CANARY"
echo() { builtin printf x > "$CANARY"; }; echo
swift() { command touch "$CANARY"; }; swift sft --model x
cd() { builtin cd "$@"; command touch "$CANARY"; }; cd /
function torchrun { touch "$CANARY"; }; torchrun x.py
command touch "$CANARY"
builtin eval touch '"$CANARY"'
exec touch "$CANARY"
env touch "$CANARY"
env -i PATH="$PATH" touch "$CANARY"
nohup touch "$CANARY" 2>/dev/null
timeout 5 touch "$CANARY"
nice touch "$CANARY"
shopt -s expand_aliases; alias t='touch "$CANARY"'; eval t
mkdir -p bin; printf '#!/bin/sh\n: > "$CANARY"\n' > bin/basename; chmod +x bin/basename; PATH=$PWD/bin:$PATH; basename x
printf 'touch "$CANARY"' > o.sh; source o.sh
printf 'touch "$CANARY"' > o.sh; . ./o.sh
printf 'touch "$CANARY"' > o.sh; bash o.sh
printf 'touch "$CANARY"' > o.sh; bash < o.sh
printf '#!/bin/bash\ntouch "$CANARY"' > o.sh; chmod +x o.sh; ./o.sh
printf 'touch "$CANARY"' > env; BASH_ENV=$PWD/env bash -c :
bash -c 'touch "$CANARY"'
bash -c "$(echo dG91Y2ggIiRDQU5BUlkiCg== | base64 -d)"
echo dG91Y2ggIiRDQU5BUlkiCg== | base64 -d | bash
echo 'touch "$CANARY"' | sh
echo "$CANARY" | xargs touch
find . -maxdepth 0 -exec touch "$CANARY" \;
awk 'BEGIN{system("touch \"$CANARY\"")}'
echo x | sed -n "w $CANARY"
echo x | sed 's/x/touch "$CANARY"/e' > /dev/null
echo x | sort -o "$CANARY"
echo x | tee "$CANARY" > /dev/null
dd if=/dev/null of="$CANARY" 2>/dev/null
cp /dev/null "$CANARY"
ln -s / "$CANARY"
mkdir "$CANARY"
python3 -S -c 'import os; open(os.environ["CANARY"], "w")'
mapfile -C 'touch "$CANARY";:' -c 1 x <<< 'a'
printf -v 'a[$(touch "$CANARY")]' x 2>/dev/null
read 'a[$(touch "$CANARY")]' <<< x 2>/dev/null
test -v 'a[$(touch "$CANARY")]'
unset 'a[$(touch "$CANARY")]' 2>/dev/null; a=(1); unset 'a[$(touch "$CANARY")]' 2>/dev/null
export "X=$(touch "$CANARY")"
readonly R=$(touch "$CANARY")
IFS=,; X=touch,$CANARY; $X
set -- touch "$CANARY"; "$@"
a=(touch "$CANARY"); "${a[@]}"
while read -r c; do $c "$CANARY"; done <<< touch
f() { return 0; touch x; }; f; touch "$CANARY" | cat
select x in a; do touch "$CANARY"; break; done <<< 1 2>/dev/null
cat > "$CANARY" <<< x
(exec 5> "$CANARY")
"""

LINES = _LINES.strip().splitlines()

BLOCKS = (
    'cat <<END > "$CANARY"\ntext\nEND',
    'bash <<END\ntouch "$CANARY"\nEND',
    "python3 -S - <<'END'\nimport os\nopen(os.environ['CANARY'], 'w')\nEND",
    'cat <<END > /dev/null\n$(touch "$CANARY")\nEND',
    'echo a # ok\\\ntouch "$CANARY"',
    "while true; do\n  touch \"$CANARY\"\n  break\ndone",
    'x=1 \\\ntouch "$CANARY"',
    'f() {\n  trap "$1" RETURN\n}\nf \'touch "$CANARY"\'',
)

SCRIPTS = (*LINES, *BLOCKS)

NETWORK = (
    "X=$(curl -s http://127.0.0.1:9/)",
    "exec 3<>/dev/tcp/127.0.0.1/9",
    "cat < /dev/tcp/127.0.0.1/9",
    "wget -q http://127.0.0.1:9/ -O- | bash",
    "pip install -U pip",
    "rm -rf ./precious",
    "ssh nobody@127.0.0.1 true",
    "git clone http://127.0.0.1:9/x",
    "kill -9 $$",
    "source <(curl -s http://127.0.0.1:9/)",
)
"""Not given to real bash by the test."""

ENDLESS = (
    "swift sft --model x --y " + "{" * 100_000,
    "echo " + "[" * 100_000,
    "while true; do :; done",
    "until false; do echo x; done",
    "for ((;;)); do :; done",
    "f() { f; }; f",
    "f() { f | f & }; f",
    "x=a; while true; do x=$x$x; done",
    "for i in {1..100000000}; do :; done",
    "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
    "seq 1 100000000000",
    "[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! =~ ^(a+)+$ ]]",
    "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep -E '(a|aa)+$'",
    "x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; echo ${x//*a*a*a*a*a*a*a*a*a*b/}",
    "cat /dev/zero",
    "read x < /dev/zero",
    "echo $((1<<99999999999)) $((9**9**9))",
    "printf '%99999999999d' 1",
    "eval \"$(printf 'eval %.0s' {1..5000}) x\"",
    "x=$(yes)",
    "source $0",
    "bash $0",
    "a='a'; echo $((a))",
    "[[ a ; b ]]",
    "[[ a =~ ]]",
    "for x in a b; do ;; done",
    "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
)
