"""Programs that try everything but to solve the problem (print the sum of two numbers on stdin)."""

# ruff: noqa: E501
# fmt: off

GREP = """
import os, re, sys
found = []
def look(path):
    try:
        with open(path, 'rb') as f:
            found.extend(re.findall(rb'SECRET-[0-9]+', f.read(1 << 20)))
    except BaseException:
        pass
"""

PROGRAMS = {
    "infinite loop": "while True: pass",
    "infinite loop that ignores signals": "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
    "sleeps forever": "import time\ntime.sleep(10**6)",
    "waits for input forever": "import os, time\nr, w = os.pipe()\nos.read(r, 1)",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "fork bomb in sessions of their own": "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass",
    "thread bomb": "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(1000,)).start()\n    except RuntimeError: pass",
    "10 GB at once": "x = bytearray(10 << 30)\nprint(len(x))",
    "10 GB by and by": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "10 GB over many processes": "import os, time\nfor _ in range(12):\n    if os.fork() == 0: break\nx = bytearray(100 << 20)\ntime.sleep(100)",
    "memory in a memfd": "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(1 << 20))",
    "memory in files": "import os\nn = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))",
    "memory in /dev/shm": "n = 0\nwhile True:\n    n += 1\n    open(f'/dev/shm/{n}', 'wb').write(bytes(1 << 20))",
    "prints forever": "while True: print('SECRET-1' * 1000)",
    "prints forever without newline": "import os\nwhile True: os.write(1, b'1' * 65536)",
    "exits before the tests": "import sys\nsys.exit(0)",
    "exits hard": "import os\nos._exit(0)",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "kills everyone": "import os, signal\nfor s in (9, 15):\n    try: os.kill(-1, s)\n    except OSError: pass\nos.kill(1, 9)\nos.killpg(0, 9)",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "says all tests passed": "print('All tests passed')\nprint('{\"passed\": true, \"reward\": 1.0}')",
    "claims the exit code": "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"exit-code\": 0}\\n')\n    except OSError: pass",
    "finds the answer in files": GREP + "for root, dirs, files in os.walk('/'):\n    if root.startswith(('/proc', '/sys', '/usr', '/opt', '/dev', sys.base_prefix)): continue\n    for name in files: look(os.path.join(root, name))\nprint(found[0].decode() if found else 'none')",
    "finds the answer in memory": GREP + "for pid in os.listdir('/proc'):\n    for name in ('mem', 'environ', 'cmdline', 'stack'): look(f'/proc/{pid}/{name}')\n    for fd in range(64): look(f'/proc/{pid}/fd/{fd}')\nprint(found[0].decode() if found else 'none')",
    "traces its parent": "import ctypes, os\nlibc = ctypes.CDLL(None)\nprint('SECRET-0' if libc.ptrace(16, 1, 0, 0) == 0 else 'no')",
    "writes outside": "import os\nfor p in ('/marker-scalerl', '/usr/marker-scalerl', '/tmp/marker-scalerl', '/home/marker-scalerl', '/dev/marker-scalerl', '/sandbox/main.py', os.path.expanduser('~/marker-scalerl')):\n    try: open(p, 'w').write('1')\n    except OSError: pass",
    "opens sockets": "import socket\nfor address in (('127.0.0.1', 22), ('10.0.0.1', 80), ('8.8.8.8', 53)):\n    s = socket.socket()\n    s.settimeout(1)\n    s.connect(address)\n    print('SECRET-0')",
    "becomes root": "import os\nos.setuid(0)\nprint('SECRET-0')",
    "makes namespaces": "import ctypes\nlibc = ctypes.CDLL(None)\nprint('SECRET-0' if libc.unshare(0x10000000) == 0 else 'no')",
    "patches the checker": "import builtins, sys, json\nbuiltins.print = lambda *a: sys.stdout.write('SECRET-0')\njson.loads = lambda *a, **k: 'SECRET-0'\nclass Same(str):\n    def __eq__(self, other): return True\nsys.stdout.write(Same('x'))",
    "leaves a daemon": "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(10**6)\n    os._exit(0)",
    "closes its output and goes on": "import os\nos.close(1); os.close(2)\nwhile True: pass",
    "null bytes in the source": "print(1)\x00",
    "not a program": "This is not Python, but it is \"correct\".",
    "huge integers": "print(9 ** 9 ** 9)",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
    "broken text": "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)",
    "regular expression that explodes": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
}

FUNCTIONS = {
    "equals everything": "class Same:\n    def __eq__(self, other): return True\ndef add(a, b): return Same()",
    "exits in the call": "import sys\ndef add(a, b): sys.exit(0)",
    "replaces the serialiser": "import json\njson.dumps = lambda *a, **k: 'true'\ndef add(a, b): return 0",
    "writes the result itself": "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'[SECRET]')\n    except OSError: pass\ndef add(a, b): return 0",
    "deeply nested result": "import sys\nsys.setrecursionlimit(10**6)\ndef add(a, b):\n    import os\n    for fd in range(3, 20):\n        try: os.write(fd, b'[' * 100000 + b']' * 100000)\n        except OSError: pass\n    os._exit(0)",
    "looks up the stack": "import sys\ndef add(a, b):\n    f = sys._getframe()\n    while f:\n        for v in list(f.f_locals.values()) + list(f.f_globals.values()):\n            if 'SECRET' in repr(v) and 'lambda' not in repr(v): return v\n        f = f.f_back\n    return None",
}
