"""What ``vlmguard doctor`` says of torch's build and of GPUs."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
import torch

from vlmguard.cli import cards, doctor


def build(capabilities=((9, 0),), archs=("sm_80", "sm_90", "compute_90"), cuda="12.6", runs=True):
    """A torch with these cards."""

    def layer(given):
        if not runs:
            raise RuntimeError("GET was unable to find an engine\nmore")

    made = SimpleNamespace(cuda=lambda: SimpleNamespace(bfloat16=lambda: layer))
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(
            get_arch_list=lambda: list(archs), is_available=lambda: bool(capabilities),
            device_count=lambda: len(capabilities), synchronize=lambda: None,
            get_device_capability=lambda number: capabilities[number],
            get_device_name=lambda number: "NVIDIA card",
        ),
        nn=SimpleNamespace(Conv2d=lambda *_: made),
        randn=lambda *_: made,
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002)),
    )  # fmt: skip


def test_a_build_that_fits():
    assert list(cards.told(build())) == [
        "torch was built for CUDA 12.6: sm_80, sm_90, compute_90",
        "  GPU 0: NVIDIA card, sm_90",
        "  a convolution in bfloat16: runs (cuDNN 91002)",
    ]


@pytest.mark.parametrize(
    ("capability", "archs", "fits"),
    [
        ((8, 6), ("sm_80",), True),  # of the same generation
        ((8, 0), ("sm_86",), False),
        ((9, 0), ("sm_80",), False),
        ((9, 0), ("sm_80", "compute_80"), True),
        ((12, 0), ("sm_90a", "sm_100"), False),
        ((12, 0), ("sm_100", "sm_120"), True),
        ((7, 0), ("sm_75", "compute_75"), False),
    ],
)
def test_a_card_that_torch_was_not_built_for(capability, archs, fits):
    told = list(cards.told(build((capability,), archs)))
    assert ("NOT among them" in told[1]) is not fits


def test_what_else_may_be_wrong():
    assert list(cards.told(build(cuda=None))) == ["torch was built without CUDA"]
    assert "no GPU" in list(cards.told(build(())))[1]
    assert next(cards.told(build((), ()))) == "torch was built for CUDA 12.6"  # it names no kinds
    failed = list(cards.told(build(runs=False)))[-1]
    assert failed.endswith("not a model or data: GET was unable to find an engine")


@pytest.mark.skipif(torch.version.cuda is not None, reason="of a build for CPUs")
def test_it_is_asked_in_a_python_of_its_own(monkeypatch):
    assert cards.look() == ["torch was built without CUDA"]
    monkeypatch.setattr(cards, "LIMIT", 0.001)
    assert "no answer in 0.001 s" in cards.look()[0]
    failing = subprocess.CompletedProcess([], 1, "", "Traceback\nOSError: libcudart.so.12")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failing)
    assert cards.look() == ["torch could not be asked for GPUs: OSError: libcudart.so.12"]


def test_doctor_prints_it(monkeypatch):
    monkeypatch.setattr(cards, "look", lambda: ["torch was built for CUDA 1"])
    monkeypatch.setattr(doctor.probe, "attach", lambda framework: None)
    monkeypatch.setattr(doctor.probe, "start", lambda: SimpleNamespace(
        frameworks=[], error="", in_place=True, no_site=False, home="", release=""))  # fmt: skip
    assert doctor.look().cards == ["torch was built for CUDA 1"]
