from support.loops import run as run
