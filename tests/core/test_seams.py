from __future__ import annotations

import copy
import functools
import importlib
import inspect
import json
import pickle
import sys
import types

import pytest

from vlmguard.core.errors import Stop
from vlmguard.runtime import seams
from vlmguard.runtime.seams import Seam, attach, detach, where


class Template:
    def collate(self, batch, extra=0):
        return [self.name, *batch, extra]

    @classmethod
    def make(cls, name):
        return cls(name)

    @staticmethod
    def join(*words):
        return "".join(words)

    def __init__(self, name="a"):
        self.name = name


COLLATE = vars(Template)["collate"]


def double(wrapped, instance, args, kwargs):
    return wrapped(args[0] * 2, *args[1:], **kwargs)


def calls(list_, name):
    def wrapper(wrapped, instance, args, kwargs):
        list_.append(name)
        return wrapped(*args, **kwargs)

    return wrapper


SEAM = Seam("collate", ("gone:X.collate", f"{__name__}:Template.collate"), double, "why")


@pytest.fixture(autouse=True)
def _attached():
    attach([SEAM])
    yield
    detach([SEAM])


@pytest.fixture
def bare():
    detach([SEAM])


def test_wraps_and_says_where():
    assert Template().collate([1]) == ["a", 1, 1, 0]
    assert where(SEAM) == ("attached", f"{__name__}:Template.collate")


def test_attach_twice_wraps_once():
    attach([SEAM])
    assert Template().collate([1]) == ["a", 1, 1, 0]


def test_detach_restores_and_switches_aliases_off():
    alias = Template().collate
    detach([SEAM])
    assert Template().collate([1]) == ["a", 1, 0]
    assert alias([1]) == ["a", 1, 0]
    assert vars(Template)["collate"] is COLLATE
    attach([SEAM])
    assert alias([1]) == ["a", 1, 0]
    assert Template().collate([1]) == ["a", 1, 1, 0]


def test_off_switch(monkeypatch):
    monkeypatch.setenv("VLMGUARD", "off")
    assert Template().collate([1]) == ["a", 1, 0]


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_bound_methods_survive(duplicate):
    held = functools.partial(Template("b").collate, extra=7)
    assert duplicate(held)([1]) == ["b", 1, 1, 7]
    assert duplicate(Template("c").collate)([1]) == ["c", 1, 1, 0]
    assert duplicate(Template.collate)(Template("d"), [1]) == ["d", 1, 1, 0]


def test_looks_like_what_it_wraps():
    assert str(inspect.signature(Template.collate)) == "(self, batch, extra=0)"
    assert inspect.isfunction(Template.collate)
    assert inspect.ismethod(Template().collate)


def test_a_target_that_is_nowhere():
    gone = Seam("gone", ("json:NoSuchThing.method", "no_such_module:f"), double, "why")
    attach([gone])
    assert where(gone) == ("missing", "")
    assert seams.missing([gone, SEAM]) == ("gone",)
    detach([gone])


def test_a_package_that_is_not_installed_is_nothing_that_is_missing():
    """As DeepSpeed where a Trainer runs without it."""
    absent = Seam("absent", ("no_such_package.engine:Engine.step",), double, "why")
    attach([absent])
    assert where(absent) == ("absent", "")
    assert seams.missing([absent, SEAM]) == ()
    detach([absent])


def test_waits_for_the_import_and_comes_back_with_a_new_one():
    seam = Seam("later", ("colorsys:rgb_to_hsv",), lambda w, i, a, k: "wrapped", "why")
    sys.modules.pop("colorsys", None)
    attach([seam])
    assert where(seam)[0] == "waiting"
    import colorsys

    assert colorsys.rgb_to_hsv(1, 1, 1) == "wrapped"
    assert type(colorsys.__loader__).__name__ == "SourceFileLoader"
    assert colorsys.__spec__.loader is colorsys.__loader__
    importlib.reload(colorsys)
    assert colorsys.rgb_to_hsv(1, 1, 1) == "wrapped"
    sys.modules.pop("colorsys")
    again = importlib.import_module("colorsys")
    assert again is not colorsys
    assert again.rgb_to_hsv(1, 1, 1) == "wrapped"
    assert where(seam)[0] == "attached"
    detach([seam])
    assert again.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_two_adapters_on_one_target(bare, first):
    seen = []
    inner = Seam("train", SEAM.targets, calls(seen, "inner"), "first adapter")
    outer = Seam("train", SEAM.targets, calls(seen, "outer"), "second adapter")
    attach([inner])
    attach([outer])
    assert Template().collate([1]) == ["a", 1, 0]
    assert seen == ["outer", "inner"]
    assert (where(inner)[0], where(outer)[0]) == ("attached", "attached")
    gone, left = (inner, outer) if first == "inner" else (outer, inner)
    detach([gone])
    seen.clear()
    Template().collate([1])
    assert seen == ["outer" if left is outer else "inner"]
    assert (where(gone)[0], where(left)[0]) != ("attached", "attached")
    assert where(left)[0] == "attached"
    detach([left])
    assert vars(Template)["collate"] is COLLATE


def test_the_inner_of_two_may_change_what_the_outer_gets(bare):
    outer = Seam("outer", SEAM.targets, lambda w, i, a, k: [*w(*a, **k), "outer"], "why")
    attach([SEAM])
    attach([outer])
    assert Template().collate([1], extra=3) == ["a", 1, 1, 3, "outer"]
    detach([outer])


def test_classmethods_staticmethods_and_functions(monkeypatch):
    told = []

    def note(wrapped, instance, args, kwargs):
        told.append(instance)
        return wrapped(*args, **kwargs)

    module = types.ModuleType("frame_of_a_test")
    module.function = lambda x: x + 1
    monkeypatch.setitem(sys.modules, "frame_of_a_test", module)
    targets = [f"{__name__}:Template.make", f"{__name__}:Template.join", "frame_of_a_test:function"]
    found = [Seam(target, (target,), note, "why") for target in targets]
    attach(found)
    try:
        assert Template.make("x").name == "x"
        assert Template("y").join("a", "b") == "ab"
        assert module.function(1) == 2
    finally:
        detach(found)
    assert told == [Template, None, None]
    assert isinstance(vars(Template)["join"], staticmethod)


def replaced(self, batch, extra=0):
    return ["replaced"]


def test_a_replaced_method_is_lost(monkeypatch):
    monkeypatch.setattr(Template, "collate", replaced)
    assert where(SEAM) == ("lost", f"{__name__}:Template.collate")
    assert seams.lost([SEAM]) == ("collate",)
    assert seams.missing([SEAM]) == ()


def by_closure(ours):
    return lambda self, *args: ours(self, *args)


def by_wraps(ours):
    return functools.wraps(ours)(lambda self, *args: kept["of a table"](self, *args))


def by_global(ours):
    global theirs
    theirs = ours
    return lambda self, *args: theirs(self, *args)


def by_partial(ours):
    return functools.partialmethod(ours)


kept = {}


@pytest.mark.parametrize("wrap", [by_closure, by_wraps, by_global, by_partial])
def test_a_wrapped_method_is_not_lost(monkeypatch, wrap):
    kept["of a table"] = Template.collate
    monkeypatch.setattr(Template, "collate", wrap(Template.collate))
    assert Template().collate([1]) == ["a", 1, 1, 0]
    assert where(SEAM)[0] == "attached"


def test_one_that_is_called_all_the_same_is_not_lost(monkeypatch):
    kept["of a table"] = Template.collate
    monkeypatch.setattr(Template, "collate", lambda *args: kept["of a table"](*args))
    assert where(SEAM)[0] == "lost"
    assert Template().collate([1]) == ["a", 1, 1, 0]
    assert where(SEAM)[0] == "attached"


def test_detached_under_somebodys_wrapper_it_passes_on(monkeypatch):
    monkeypatch.setattr(Template, "collate", by_closure(Template.collate))
    detach([SEAM])
    assert Template().collate([1]) == ["a", 1, 0]
    attach([SEAM])
    assert Template().collate([1]) == ["a", 1, 1, 0]


def test_a_subclass_that_overrides_has_not_lost_it(monkeypatch):
    class Own(Template):
        def collate(self, batch, extra=0):
            return super().collate(batch)

    assert where(SEAM)[0] == "attached"
    assert Own().collate([1]) == ["a", 1, 1, 0]
    monkeypatch.setattr(sys.modules[__name__], "Template", Own)
    assert where(SEAM)[0] == "attached"
    monkeypatch.setattr(sys.modules[__name__], "Template", type("Template", (), {}))
    assert where(SEAM)[0] == "lost"


def test_a_named_wrapper_is_imported_at_its_first_call(bare, tmp_path, monkeypatch, capsys):
    (tmp_path / "wrapper_of_a_test.py").write_text(
        "def double(wrapped, instance, args, kwargs):\n    return wrapped(args[0] * 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    seam = Seam("named", SEAM.targets, "wrapper_of_a_test:double", "why")
    attach([seam])
    assert "wrapper_of_a_test" not in sys.modules
    assert Template().collate([1]) == ["a", 1, 1, 0]
    detach([seam])


@pytest.mark.parametrize("name", ["no_such_wrapper:f", f"{__name__}:no_such_function"])
def test_a_wrapper_that_cannot_be_loaded_costs_the_run_nothing(bare, capsys, name):
    seam = Seam("broken", SEAM.targets, name, "why")
    attach([seam])
    assert Template().collate([1]) == ["a", 1, 0]
    assert Template().collate([1]) == ["a", 1, 0]
    assert capsys.readouterr().err.count("VG902") == 1
    detach([seam])


def test_a_place_that_cannot_be_looked_at_costs_the_import_nothing(bare, monkeypatch, capsys):
    """A lazy module whose attribute fails to import, as frameworks have them."""

    def missing(name):
        raise RuntimeError(f"{name} needs a GPU")

    lazy = types.ModuleType("lazy_frame_of_a_test")
    lazy.__getattr__ = missing
    monkeypatch.setitem(sys.modules, "lazy_frame_of_a_test", lazy)
    broken = Seam("lazy", ("lazy_frame_of_a_test:Trainer.train",), double, "why")
    attach([broken, SEAM])
    assert "Trainer needs a GPU; left alone" in capsys.readouterr().err
    assert Template().collate([1]) == ["a", 1, 1, 0]
    detach([broken])


def test_what_the_wrapped_function_raises_goes_on_unchanged():
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Template().collate([1], other=1)


def test_the_jsons_decoder_of_the_first_report(bare):
    """Two adapters that name the same target: once, only the first one's wrapper was attached."""
    seen = []
    targets = ("json.decoder:JSONDecoder.decode",)
    one, two = (Seam("train", targets, calls(seen, name), name) for name in ("a", "b"))
    attach([one])
    attach([two])
    json.loads("1", cls=json.JSONDecoder)
    assert seen == ["b", "a"]
    detach([one, two])


def heard(instance, error):
    instance.heard = str(error)


def wrong(instance, error):
    raise RuntimeError("ours")


class TestRest:
    """Between `rest` and `wake` calls go straight to the framework's method, where a seam may."""

    def made(self, seen, rests, failed=""):
        class Loop:
            def step(self, word):
                if word == "wrong":
                    raise ValueError(word)
                return word

        return Loop, seams.over(
            Loop, "step", Seam("own", (), calls(seen, "hook"), "why", rests=rests, failed=failed)
        )

    def test_it_is_left_out_until_wake(self):
        seen = []
        kind, remove = self.made(seen, True)
        seams.rest()
        assert (kind().step("a"), seen) == ("a", [])
        seams.wake()
        assert (kind().step("a"), seen) == ("a", ["hook"])
        remove()

    def test_others_do_not_rest(self):
        seen = []
        kind, remove = self.made(seen, False)
        seams.rest()
        kind().step("a")
        assert seen == ["hook"]
        remove()

    def test_a_second_hook_that_does_not_rest_wakes_the_place(self):
        seen = []
        kind, remove = self.made(seen, True)
        seams.rest()
        again = seams.over(kind, "step", Seam("other", (), calls(seen, "other"), "why"))
        kind().step("a")
        seams.rest()
        kind().step("a")
        assert seen == ["other", "hook"] * 2
        again()
        remove()

    @pytest.mark.parametrize(("failed", "told"), [("heard", "wrong"), ("wrong", ""), ("none", "")])
    def test_an_error_is_told_and_goes_on(self, failed, told, capsys):
        kind, remove = self.made([], True, f"{__name__}:{failed}")
        seams.rest()
        one = kind()
        with pytest.raises(ValueError, match="wrong"):
            one.step("wrong")
        assert getattr(one, "heard", "") == told
        seams.wake()
        remove()



class TestTraceback:
    """A stop shows the program's frames and the framework's; of ours the outermost stub alone."""

    def ours(self, kind):
        def wrapper(wrapped, instance, args, kwargs):
            raise kind("why")

        class Loop:
            def inner(self):
                return 1

            def outer(self):
                return self.inner()

        off = [
            seams.over(Loop, "inner", Seam("in", (), wrapper, "why")),
            seams.over(Loop, "outer", Seam("out", (), calls([], "out"), "why")),
        ]
        with pytest.raises(kind) as caught:
            Loop().outer()
        for each in off:
            each()
        names = [each.tb_frame for each in walk(caught.value.__traceback__)]
        assert [f.f_code.co_name for f in names if f.f_globals is globals()] == [
            "ours", "wrapper", "outer", "wrapper"]
        return sum(f.f_globals["__name__"].startswith("vlmguard") for f in names)

    def test_a_stop_hides_them(self):
        assert self.ours(Stop) == 1

    def test_a_setting_shows_them(self, monkeypatch):
        monkeypatch.setenv("VLMGUARD_TRACEBACK", "1")
        assert self.ours(Stop) > 3

    def test_other_errors_keep_theirs(self):
        assert self.ours(ValueError) > 3


def walk(trace):
    while trace is not None:
        yield trace
        trace = trace.tb_next
