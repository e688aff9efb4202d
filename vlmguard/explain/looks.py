"""Commands that look and decide, for steps of several classes: one line each, for bash."""

from __future__ import annotations

from vlmguard.explain.failure import Do

CHECK = Do(
    "sed -n {span} {codefile}: the line that failed and those before it say what is asked for",
    "none",
    silent=True,
)

# The names of transformers that differ by their case alone.
SPELT_ALIKE = (
    "python -c 'import transformers as t; print(t.__version__, [n for n in dir(t) if "
    'n.lower() == "{name}".lower()])\': a name is printed: spell it like that; none: '
    "python -m pip install -U transformers, or an older one, as the program's "
    "requirements say"
)
# Who names the first folder of a path that is not there.
WHOSE_FOLDER = (
    "grep -rnF {top} --include=*.py --include=*.y*ml --include=*.json --include=*.sh "
    ". | head: where that folder's name comes from, if it is another's: write yours "
    "there"
)

# Every spelling of an image's or video's place, and content as parts; one for each file.
_ROWS = (
    "python -c 'import json, re, sys; t = open(sys.argv[1]).read(); r = json.loads(t) if "
    't[:1] == "[" else [json.loads(x) for x in t.splitlines() if x]; m = lambda x: '
    're.findall("<image>|<video>|<[|](?:image|video)_pad[|]>|<[|]vision_start[|]>(?!<)|'
    '<IMG_CONTEXT>|<image_soft_token>|.type.: .(?:image|video).", json.dumps(x)); c = lambda x: '
    "sum(1 if isinstance(v, (str, dict)) else len(v) for k in "
    '("images", "image", "videos", "video") for v in [x.get(k) or []]); '
    "print([(n, m(x)[:9]) for n, x in enumerate(r) if len(m(x)) != c(x)][:20])' "
)
# A blank image in each row of text alone; the last word: a file of rows.
_BLANK = (
    "python -c $'import json, os, sys\\nfrom PIL import Image\\nt = open(sys.argv[1]).read()\\n"
    'r = json.loads(t) if t[:1] == "[" else [json.loads(x) for x in t.splitlines() if x]\\n'
    'Image.new("RGB", (336, 336)).save("blank.png")\\np, n = os.path.abspath("blank.png"), 0\\n'
    'one = any(isinstance(x.get("image"), str) for x in r)\\nfor x in r:\\n'
    ' if any(x.get(k) for k in ("images", "image", "videos", "video")): continue\\n'
    ' for u in x.get("messages") or x.get("conversations") or []:\\n'
    '  if u.get("role", u.get("from")) not in ("user", "human"): continue\\n'
    '  k = "content" if "content" in u else "value"\\n'
    '  u[k] = "<image>" + u[k] if isinstance(u[k], str) else [{"type": "image"}, *u[k]]\\n'
    '  x.update({"image": p} if one else {"images": [p]})\\n  n += 1\\n  break\\n'
    'json.dump(r, open("with_blank.json", "w"), ensure_ascii=False)\\n'
    'print(n, "of", len(r), "rows had no image")\' '
)
_WITH = (
    ": writes with_blank.json, in which each row without an image has a blank one in front of the "
    "question, where no label sees it: train on that; 0 rows had none: the next steps"
)
BLANK = tuple(
    Do(_BLANK + data + _WITH, "one small forward of the tower in rows of text", kind="blank")
    for data in ("{data}", "FILE.json")
)
_NUMBERS = (
    ": the numbers of the rows whose images and image tokens differ, and those tokens: one <image> "
    "for each image, and no <|image_pad|> or its like in a question or an answer; []: the rows are "
    "sound, and the template, processor or model type is of another model than the weights"
)
ROWS, ROWS_OF_FILE = _ROWS + "{data}" + _NUMBERS, _ROWS + "FILE.json" + _NUMBERS

# In front of a command, on each node of several.
ROUTE = (
    "NCCL_SOCKET_IFNAME=$(ip route show default | grep -oP 'dev \\K\\S+' | head -1) in front of "
    "the command, on each node: the interface that leads out of it; another one that all nodes "
    "share, "
    "by name, if that is not their network (ip -br addr)"
)
# The same, where the log names the first node's address.
NETWORK = (
    "NCCL_SOCKET_IFNAME=$(ip -o -4 addr | grep -F ' {network}.' | awk '{print $2; exit}') in front "
    "of the command, on each node: its interface in the network of the first node, {firstnode} "
    "(nothing found: ip -br addr, and the name of the one that all nodes share)"
)
ROUTE_GLOO = ROUTE.replace("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

# The last word: a file of rows, one a line.
LINES = (
    "python -c $'import json, sys\\nfor n, x in enumerate(open(sys.argv[1]), 1):\\n try: "
    "json.loads(x)\\n except ValueError as e: print(n, e)' "
)

# The last word: a file of rows, one a line, whose images have their paths in them.
IMAGES_OF_ROWS = (
    "python -c $'import json, sys\\nfrom PIL import Image\\n"
    "for n, x in enumerate(open(sys.argv[1]), 1):\\n"
    ' r = json.loads(x); v = r.get("images") or r.get("image") or []\\n for p in ([v] if '
    'isinstance(v, str) else v):\\n  try: Image.open(p["path"] if isinstance(p, dict) else '
    "p).load()\\n  except Exception as e: print(n, p, e)' "
)

# The last word of both: the folder that holds the images.
_EACH = (
    "python -c $'import sys, pathlib\\nfrom PIL import Image\\nfor p in "
    'pathlib.Path(sys.argv[1]).rglob("*.*"):\\n if p.suffix.lower() in '
    '(".jpg", ".jpeg", ".png", ".webp", ".bmp"):\\n  '
)
BROKEN = _EACH + "try: Image.open(p).load()\\n  except Exception as e: print(p, e)' "
HUGE = (
    _EACH.replace("Image\\nfor", "Image\\nImage.MAX_IMAGE_PIXELS = None\\nfor")
    + "a, b = Image.open(p).size\\n  a * b > 5e7 and print(p, a, b)' "
)
NARROW = (
    _EACH
    + "try: a, b = sorted(Image.open(p).size)\\n  except Exception as e: print(p, e); continue"
    "\\n  b > 199 * a and print(p, a, b)' "
)
# The last word: a file of rows, then the folder of its images; writes the rows that are left.
KEPT = (
    "python -c $'import json, sys, os\\nfrom PIL import Image\\nt = open(sys.argv[1]).read()\\n"
    'r = json.loads(t) if t[:1] == "[" else [json.loads(x) for x in t.splitlines() if x]\\n'
    'def ok(p):\\n p = os.path.join(sys.argv[2], p["path"] if isinstance(p, dict) else p)\\n'
    " try: a, b = sorted(Image.open(p).size)\\n except Exception as e: print(p, e); return False\\n"
    ' b > 199 * a and print(p, a, b)\\n return b < 200 * a\\nv = lambda x: x.get("images") or '
    'x.get("image") or []\\nk = [x for x in r if all(map(ok, [v(x)] if isinstance(v(x), str) else '
    'v(x)))]\\njson.dump(k, open("kept.json", "w"), ensure_ascii=False)\\nprint(len(r) - len(k), '
    '"rows left out of kept.json")\' '
)

# The last words: a file of rows, keys; the rows without one of these are told, the others printed.
WITHOUT_EMPTY = (
    'python -c $\'import json, sys\\nt = open(sys.argv[1]).read()\\na = t.lstrip()[:1] == "["\\n'
    'r = json.loads(t) if a else [json.loads(x) for x in t.split("\\\\n") if x.strip()]\\n'
    "k = []\\nfor n, x in enumerate(r, 1):\\n"
    " if all(x.get(y) for y in sys.argv[2:]): k.append(x)\\n"
    ' else: print("row", n, "left out", file=sys.stderr)\\n'
    "print(json.dumps(k, ensure_ascii=False) if a else "
    '"\\\\n".join(json.dumps(x, ensure_ascii=False) for x in k))\' '
)

# The last word: a file of rows; the rows that are no JSON, and the types that each key has.
TYPES = (
    "python -c $'import json, sys\\nk, t = {}, open(sys.argv[1]).read()\\n"
    'for n, x in enumerate(json.loads(t) if t[:1] == "[" else t.splitlines(), 1):\\n'
    " try: x = json.loads(x) if isinstance(x, str) else x\\n"
    " except ValueError as e: print(n, e); continue\\n"
    " for a, b in x.items(): k.setdefault(a, set()).add(type(b).__name__)\\nprint(k)' "
)

# A processor's file of before transformers 4.50; the last word: that file.
_SIZED = (
    "python -c 'import json, sys; p = sys.argv[1]; d = json.load(open(p)); "
    's = d.get("size") or {}; '
    'v = lambda k, n: d.get(k) or s.get(k) or n; d["size"] = {"shortest_edge": '
    'v("min_pixels", 3136), "longest_edge": v("max_pixels", 2116800)}; '
    'json.dump(d, open(p, "w"), indent=2)\' '
)
_INSTEAD = ": the two keys, of its own min_pixels and max_pixels, and the release as it is"
EDGES = (
    Do(
        "python -m pip install 'transformers<4.50': 4.50 and later refuse this model's "
        "preprocessor_config.json, whose size lacks shortest_edge and longest_edge",
        "none",
    ),
    Do(_SIZED + "{preprocessor}" + _INSTEAD, "none", kind="size"),
    Do(_SIZED + "MODEL/preprocessor_config.json" + _INSTEAD, "none", kind="size"),
)
# Both packages of unsloth, whose releases go by days.
UNSLOTH = Do(
    "python -m pip install -U --no-cache-dir unsloth unsloth_zoo; rm -rf unsloth_compiled_cache: "
    "both patch trl and transformers, must be of one day, and bring the trl that they know",
    "none",
)
# Every process that the run's launcher gave a rank, each with its stack.
SPY = (
    "pip install py-spy; for p in $(pgrep -u $USER -f '[p]ython'); do r=$(tr '\\0' '\\n' < "
    "/proc/$p/environ | sed -n 's/^RANK=//p'); echo \"== rank $r, process $p\"; py-spy dump --pid "
    "$p; done"
)
