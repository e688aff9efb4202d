"""Lines that say which work began beside the steps: an evaluation, a save, preparing the data."""

from __future__ import annotations

import re

_ASIDE = re.compile(
    r"^\s{0,8}(?:(?:[Gg]enerati(?:on|ve)|[Rr]unning|[Ff]inal|[Mm]odel) )?"
    r"(?i:val|valid\w{0,5}|eval\w{0,6}|predict\w{0,5}|test\w{0,3})\b[^%|]{0,30}:?\s{0,4}\d{1,3}%\|"
)
_EVALUATES = re.compile(
    r"(?i)\b(?:running|start(?:ing|ed)?|begin(?:ning)?)(?: the)? "
    r"(?:eval\w{0,6}|validat\w{0,4}|.{0,20}benchmarks?)\b"
    r"|\bvalidating\b"
    r"|\b(?:generating|sampling)\b.{0,40}\b(?:eval\w{0,6}|val|validation|test)\b"
    r"|(?:开始|正在|进行)(?:验证|评估|评测)"
)
_SAVES = re.compile(
    r"(?i)\b(?:saving|writing|dumping|uploading|consolidating|merging|gathering|exporting)\b.{0,60}"
    r"\b(?:checkpoint|ckpt|state|weights|model|adapter|optimizer)"
    r"|(?:开始|正在)(?:保存|写入|合并|导出|上传)"
)
_PREPARES = re.compile(
    r"(?i)\b(?:tokeniz|pre-?process|prepar|build|pack|index|cach|download)ing\b.{0,60}"
    r"\b(?:data\w{0,6}|index\w{0,4}|indices|files?|samples?|examples?|corpus|features|images?)\b"
    r"|\bGenerating \w{1,20} split: "
    r"|(?:开始|正在)(?:预?处理|加载|下载|构建|分词|编码).{0,8}(?:数据|索引|样本)"
)
LONG = 300  # characters: an announcement is shorter


def aside(text: str) -> bool:
    """Whether it is the progress bar of an evaluation."""
    return _ASIDE.match(text) is not None


def evaluates(text: str, stepped: bool) -> bool:
    """Whether an evaluation began; a script's own words tell that only behind a step."""
    if "Running Evaluation" in text or "valuating" in text[:40] or aside(text):
        return True
    return stepped and len(text) < LONG and _EVALUATES.search(text) is not None


def saves(text: str, stepped: bool) -> bool:
    """Whether a checkpoint began to be written."""
    if any(said in text for said in ("Saving model checkpoint", "Saving checkpoint")):
        return True
    if "[torch] Saving" in text:
        return True
    return stepped and len(text) < LONG and _SAVES.search(text) is not None


def prepares(text: str) -> bool:
    """Whether the data is made ready."""
    return len(text) < LONG and _PREPARES.search(text) is not None
