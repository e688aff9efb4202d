"""Words with which a run says that the training is over, its framework's or its script's own."""

from __future__ import annotations

import re

_MARKS = (
    "'train_runtime'",
    '"train_runtime"',
    "train_runtime  ",
    "train_runtime =",
    "***** train metrics *****",
    "End time of running main",
    "exits successfully",
    "Training success",
    "Job finished successfully",
    " - Job completed successfully",  # submitit's
    "Final validation metrics",
    "Training took ",
    "Total training time",
    "completed with exit code: 0",
    "evaluating finished",
    "valuation finished",
    '"key": "run_stop"',  # MLPerf's
    "epochs completed in ",  # ultralytics'
    "`Trainer.fit` stopped: ",  # Lightning's
    "State: COMPLETED (exit code 0)",  # Slurm's seff
    "Process finished with exit code 0",
    "进程已结束，退出代码为 0",  # the same in Chinese
)
# A script's own words for its end; not for an epoch's, a fold's.
_WORDS = re.compile(
    r"(?i)\b(?:pre-?|fine-?|re)?(?:train|tun)ing "
    r"(?:(?:runs?|job|process|loop|is|was|has|been) ){0,3}"
    r"(?:completed?|finished|done|ended)\b"
    r"|\b(?:finished|completed|done) (?:all |the )?(?:pre-?|fine-?)?(?:train|tun)ing\b"
    r"|(?:训练|微调)(?:已|全部)?(?:完成|结束)"
    r"|(?:学習|訓練|トレーニング)が(?:完了|終了)|(?:학습|훈련)이 (?:완료|종료)"
    r"|\bentra[iî]nement terminé|\bentrenamiento (?:completado|terminado|finalizado)"
    r"|\btreinamento (?:concluído|finalizado)|\btraining (?:ist )?(?:abgeschlossen|beendet)"
    r"|\bобучение (?:завершено|окончено)"
    r"|^finished: |^Training time \d"
)
# A script's last word.
_LAST = re.compile(r"(?i)^\W{0,4}(?:all )?(?:done|finished|completed?|success|完成|结束)\W{0,4}$")
_PART = re.compile(r"(?i)epoch|fold|round|stage|step|iter|轮|折|步")
_OF_PART = re.compile(r"(?i):?\s{0,3}(?:for |of |on )?(?:epoch|fold|round|stage|step|iter)")
# One of these is in all of them: most lines need no more.
_HINTS = tuple(
    "ing|ING|训|微|inished: |学習|訓練|トレ|학습|훈련|nement |miento |inamento |бучение".split("|")
)


def marked(text: str) -> bool:
    """Whether it is a line that a framework prints at the end only."""
    return any(mark in text for mark in _MARKS)


def last_word(text: str) -> bool:
    """Whether a line is nothing but "done", which says so as a log's last only."""
    return _LAST.match(text) is not None


def says_done(text: str) -> bool:
    """Whether a line says that the training is over."""
    if "Error" in text or "print(" in text:  # a source line says what it would write
        return False
    if marked(text):
        return True
    worded = any(part in text for part in _HINTS)
    match = _WORDS.search(text, 0, 600) if worded else None
    if match is None:
        return False
    before = _PART.search(text, max(match.start() - 30, 0), match.start())
    return before is None and _OF_PART.match(text, match.end()) is None
