"""More programs that try everything but to solve the problem: what a second look thought of."""

# ruff: noqa: E501
# fmt: off

PROGRAMS = {
    "writes to /proc": "for p in ('self/mem', 'self/oom_score_adj', 'self/uid_map', 'self/attr/current', 'self/comm', '1/mem', '1/oom_score_adj', '1/comm', 'sysrq-trigger', 'sys/kernel/core_pattern', 'sys/kernel/pid_max', 'sys/vm/drop_caches'):\n    try: open('/proc/' + p, 'wb').write(b'0')\n    except OSError: pass",
    "symbolic links to outside": "import os\nfor n, t in enumerate(('/', '/..', '/proc/1/root', '/proc/1/cwd', '/proc/self/root/..', '/dev/fd', '/usr', '/home')):\n    os.symlink(t, f'/tmp/{n}')\n    try: open(f'/tmp/{n}/marker-scalerl', 'w').write('1')\n    except OSError: pass\nos.link('/sandbox/main.py', '/tmp/main')",
    "climbs out of its descriptors": "import os\nfor fd in range(64):\n    for up in ('..', '../../../..'):\n        try: os.close(os.open(up + '/marker-scalerl', os.O_CREAT | os.O_WRONLY, dir_fd=fd))\n        except OSError: pass",
    "preloads a library into another program": "import os, sys\nopen('/tmp/sitecustomize.py', 'w').write('open(\"/marker-scalerl\", \"w\")')\nos.execve(sys.executable, [sys.executable, '-c', 'import os; print(os.geteuid() == 0 and \"SECRET-0\")'], {'LD_PRELOAD': '/tmp/x.so', 'LD_LIBRARY_PATH': '/tmp', 'PYTHONPATH': '/tmp'})",
    "fork storm with exec": "import os, sys\nwhile True:\n    try:\n        if os.fork() == 0: os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(1000)'])\n    except OSError: pass",
    "spawns in sessions of their own": "import os, sys\nwhile True:\n    try: os.posix_spawn(sys.executable, [sys.executable, '-S', '-c', 'while True: pass'], {}, setsid=True)\n    except OSError: pass",
    "a chain of children, each gone at once": "import os, time\nif os.fork() == 0:\n    while True:\n        end = time.process_time() + 0.01\n        while time.process_time() < end: pass\n        if os.fork(): os._exit(0)\ntime.sleep(1000)",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "stops everyone": "import os, signal\nfor pid in (1, os.getppid(), -1, 0):\n    try: os.kill(pid, signal.SIGSTOP)\n    except OSError: pass",
    "signals every group": "import os\nfor group in range(2, 500):\n    for signal in (9, 19):\n        try: os.killpg(group, signal)\n        except OSError: pass",
    "closes every descriptor": "import os\nos.closerange(0, 1 << 16)\nwhile True: pass",
    "writes to its own input": "import os, mmap\nfor path in ('/proc/self/fd/0', '/dev/stdin'):\n    try: open(path, 'r+b').write(b'SECRET-0')\n    except OSError: pass\nfor what in (lambda: os.write(0, b'x'), lambda: os.ftruncate(0, 0), lambda: mmap.mmap(0, 1)):\n    try: what(); print('SECRET-0')\n    except (OSError, ValueError): pass",
    "prints where it can": "import glob\nfor path in ('/proc/1/fd/1', '/proc/1/fd/2', '/dev/tty', '/dev/console', '/dev/kmsg', *glob.glob('/dev/pts/*')):\n    try: open(path, 'w').write('SECRET-0')\n    except OSError: pass",
    "prints from many processes": "import os\nfor _ in range(3): os.fork()\nwhile True: os.write(1, b'1' * 65536)",
    "empty files without end": "import os\nn = 0\nwhile True:\n    n += 1\n    os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))",
    "folders in folders": "import os\nos.chdir('/tmp')\nwhile True:\n    os.mkdir('d')\n    os.chdir('d')",
    "memory in pipes": "import fcntl, os\nfor _ in range(3): os.fork()\nwhile True:\n    try:\n        r, w = os.pipe()\n        os.set_blocking(w, False)\n        fcntl.fcntl(w, 1031, 1 << 20)\n    except OSError: pass\n    try:\n        while True: os.write(w, bytes(1 << 16))\n    except OSError: pass",
    "memory in shared mappings": "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 16 << 20))\n    for i in range(0, 16 << 20, 4096): x[-1][i] = 1",
    "exits while it is imported": "import sys\nopen('/tmp/inner.py', 'w').write('import sys; sys.exit(0)')\nsys.path.insert(0, '/tmp')\nimport inner",
    "exits well after it failed": "import atexit, os\natexit.register(os._exit, 0)\nraise RuntimeError('no')",
    "overflows the stack of C": "import ctypes\nf = ctypes.CFUNCTYPE(None)(lambda: f())\nf()",
    "aborts": "import os\nos.abort()",
    "raw devices": "import os, stat\nfor n, (kind, major, minor) in enumerate(((stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFBLK, 254, 0))):\n    try:\n        os.mknod(f'/tmp/{n}', kind | 0o600, os.makedev(major, minor))\n        print('SECRET-0' if open(f'/tmp/{n}', 'rb').read(1) else '')\n    except OSError: pass\nfor path in ('/dev/sda', '/dev/vda', '/dev/mem', '/dev/kmsg'):\n    try: print('SECRET-0' if open(path, 'rb').read(1) else '')\n    except OSError: pass",
    "raises its own limits": "import os, resource, time\nfor what in (lambda: resource.setrlimit(resource.RLIMIT_NPROC, (10000, 10000)), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)), lambda: resource.setrlimit(resource.RLIMIT_CPU, (-1, -1)), lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: time.clock_settime(time.CLOCK_REALTIME, 0)):\n    try: what(); print('SECRET-0')\n    except (OSError, ValueError): pass",
    "a setuid file": "import os, shutil, sys\nshutil.copy('/proc/self/exe', '/tmp/p')\nos.chmod('/tmp/p', 0o6755)\nos.execv('/tmp/p', ['/tmp/p', '-c', 'import os; print(\"SECRET-0\" if os.geteuid() == 0 else \"no\")'])",
    "tells both": "print('SECRET-1')\nprint('SECRET-0')",
    "writes over its line": "print('SECRET-1\\rSECRET-0', end='')",
    "a right answer and a bad end": "print('SECRET-0', flush=True)\nraise SystemExit(3)",
    "a right answer, then killed": "import os\nprint('SECRET-0', flush=True)\nos.kill(os.getpid(), 9)",
    "a right answer that never ends": "print('SECRET-0', flush=True)\nwhile True: pass",
}

FUNCTIONS = {
    "searches every object": "import gc, sys, __main__\ndef add(a, b):\n    for o in [*gc.get_objects(), *vars(__main__).values(), *sys.modules.values()]:\n        for v in (o.values() if type(o) is dict else o if type(o) in (list, tuple) else ()):\n            if type(v) is str and v.strip('\"') == 'SEC' + 'RET': return v.strip('\"')\n    return 0",
    "searches its memory": "import re\ndef add(a, b):\n    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:\n        for line in maps:\n            low, high = (int(x, 16) for x in line.split()[0].split('-'))\n            try:\n                memory.seek(low)\n                if re.search(rb'SE[C]RET', memory.read(min(high - low, 1 << 24))): return ''.join(('SE', 'CRET'))\n            except (OSError, OverflowError, ValueError): pass\n    return 0",
    "reads the harness": "import __main__, inspect\ndef add(a, b):\n    frame = inspect.currentframe()\n    while frame.f_back: frame = frame.f_back\n    request = frame.f_globals['_request']\n    request['expected'] = request.get('expected', 'none')\n    return [v for v in request.values() if v == 'SEC' + 'RET'] or 0",
    "patches everything builtin": "import builtins, json, operator, os\nbuiltins.print = builtins.len = builtins.isinstance = builtins.bool = lambda *a, **k: True\noperator.eq = lambda a, b: True\nos._exit = lambda status: None\njson.JSONEncoder.default = lambda self, o: 'anything'\ndef add(a, b): return object()",
    "a number that lies": "class Liar(int):\n    def __repr__(self): return '\"anything\"'\n    __str__ = __repr__\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef add(a, b): return Liar(0)",
    "a mapping that lies": "class Liar(dict):\n    def __eq__(self, other): return True\n    def items(self): return iter(lambda: ('a', 1), None)\n    def keys(self): return iter(lambda: 'a', None)\ndef add(a, b): return Liar(x=1)",
    "a number without bounds": "import sys\nsys.set_int_max_str_digits(0)\ndef add(a, b): return 10 ** 100000",
    "a generator without end": "def add(a, b):\n    while True: yield 'SECRET'",
    "takes the result's place": "import os, __main__\nclass Liar:\n    def write(self, text): os.write(__main__._result.fileno(), b'0')\n    def flush(self): pass\ndef add(a, b):\n    __main__._result = Liar()\n    return 0",
    "a thread that goes on": "import threading\ndef spin():\n    while True: pass\ndef add(a, b):\n    for _ in range(4): threading.Thread(target=spin).start()\n    return 0",
    "never returns": "import threading\ndef add(a, b): threading.Event().wait()",
    "two results": "import os\ndef add(a, b):\n    for fd in range(3, 20):\n        try: os.write(fd, b'\"SECRET\"')\n        except OSError: pass\n    return 0",
}
