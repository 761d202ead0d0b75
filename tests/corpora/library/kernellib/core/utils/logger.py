"""Loggers of kernels, with a level from the environment."""

import logging
import os
from enum import Enum
from typing import Optional

import nki.language as nl


class Level(Enum):
    """Levels by name."""

    DEBUG = logging.DEBUG
    INFO = logging.INFO
    ERROR = logging.ERROR


class Logger(nl.NKIObject):
    """Prefixes what a kernel says."""

    def __init__(self, name: str = "kernel", level: Optional[Level] = None):
        self.name = name
        self.level = level if level is not None else Level[os.environ.get("LIB_LOG_LEVEL", "ERROR")]
        self.sink = logging.getLogger(name)

    def _emit(self, level: Level, message: str):
        if level.value >= self.level.value:
            self.sink.log(level.value, f"[{self.name}] {message}")

    def debug(self, message: str):
        self._emit(Level.DEBUG, message)

    def info(self, message: str):
        self._emit(Level.INFO, message)

    def error(self, message: str):
        self._emit(Level.ERROR, message)


def get_logger(name: Optional[str] = None) -> Logger:
    return Logger(name if name is not None else "kernellib")
