//! The rules.
//!
//! Patterns are those of the `regex` crate on bytes, without case, `^` and `$` at lines. `\b` and `\w`
//! are ASCII.

use super::file::{About, Spec};

const fn rule(about: About, says: &'static str, all: &'static [&'static str]) -> Spec {
    Spec {
        about,
        says,
        all,
        unless: None,
        times: 1,
    }
}

/// The name of a shell, with or without its folder.
macro_rules! shell {
    () => {
        r"(?:/(?:usr/)?bin/)?(?:ba|z|da|k)?sh\b"
    };
}

/// Something that turns text into other text, as code in Python hides itself.
macro_rules! decodes {
    () => {
        r"(?:b64decode|b32decode|b16decode|b85decode|a85decode|decodebytes|unhexlify|a2b_base64|a2b_hex|decompress|fromhex)\s*\("
    };
}

/// Starts a program in Python.
macro_rules! runs {
    () => {
        r"(?:subprocess\.(?:Popen|check_output|getoutput|run|call)|os\.(?:system|popen))\s*\("
    };
}

pub(super) const RULES: &[Spec] = &[
    // Mining.
    rule(
        About::All,
        "mining: connects to a pool by the stratum protocol",
        &[r"\bstratum\d?\+(?:tcp|ssl|tls|udp)://"],
    ),
    rule(
        About::All,
        "mining: names a program that mines",
        &[
            r"\b(?:xmrig|xmr-stak|minerd|cpuminer|ethminer|nbminer|lolminer|phoenixminer|teamredminer|nanominer|cgminer|bfgminer|ccminer|srbminer|coinhive|cryptoloot|coinimp)\b",
        ],
    ),
    rule(
        About::All,
        "mining: names a mining pool",
        &[
            r"\b(?:minexmr\.com|supportxmr\.com|nanopool\.org|2miners\.com|moneroocean\.stream|hashvault\.pro|f2pool\.com|ethermine\.org|c3pool\.com|herominers\.com|unmineable\.com)\b",
        ],
    ),
    // Floods and botnets.
    rule(
        About::Code,
        "denial of service: names a program that floods",
        &[r"\b(?:slowloris|hping3|torshammer|mhddos)\b"],
    ),
    rule(
        About::Code,
        "denial of service: a flood of packets or requests",
        &[r"\b(?:def|function|func)\s+\w*(?:syn|udp|tcp|http|icmp|ack|dns|layer7)_?flood\w*\s*\("],
    ),
    rule(
        About::Code,
        "denial of service: a flood of packets or requests",
        &[
            r"\b(?:def|function|func)\s+flood\s*\(",
            r"\bsocket\b|\brequests\.|\bhttps?\b|\bnet\.Dial|\bfetch\s*\(",
        ],
    ),
    rule(
        About::Python,
        "denial of service: packets sent without end",
        &[
            r"\bsendp?\s*\([^\n]*(?:loop\s*=\s*1|inter\s*=\s*0\b|count\s*=\s*\d{4,})",
            r"\b(?:TCP|UDP|ICMP|DNS)\s*\(",
        ],
    ),
    rule(
        About::Python,
        "denial of service: packets sent without end",
        &[
            r#"\.sendto\s*\(\s*(?:random\._urandom|os\.urandom|random\.randbytes|bytes\s*\(\s*\d{3,}|b?["'][^"'\n]*["']\s*\*\s*\d{3,}|\w*(?:payload|junk|packet)\w*\s*,)"#,
            r"\bSOCK_DGRAM\b",
            r"\bwhile\s+(?:True|1)\s*:",
        ],
    ),
    rule(
        About::Code,
        "botnet: takes commands from a chat channel",
        &[
            r"\bJOIN\s+[#{%]",
            r"\bPRIVMSG\b",
            r"os\.(?:system|popen)|subprocess|child_process|exec\.Command",
        ],
    ),
    rule(
        About::Code,
        "denial of service: a request that is amplified",
        &[r"\\x17\\x00\\x03\\x2a"],
    ),
    // Port scanning.
    rule(
        About::Code,
        "port scanning: uses a port scanner",
        &[
            r#"["'`](?:sudo\s+)?(?:/usr/(?:local/)?bin/)?(?:nmap|masscan|zmap|rustscan)(?:\s+-|["'`]\s*[,\]])|^\s*(?:import|from)\s+(?:lib|python_)?nmap\b|\bnmap\.PortScanner|require\s*\(\s*["'](?:node-|lib)?nmap|^\s*(?:sudo\s+)?(?:nmap|masscan|zmap|rustscan)\s+-"#,
        ],
    ),
    Spec {
        // A free port of one's own machine is found in the same way.
        unless: Some(r#"connect_ex\s*\(\s*\(\s*["'](?:localhost|127\.|0\.0\.0\.0|::1)"#),
        ..rule(
            About::Python,
            "port scanning: tries one port after the other",
            &[
                r"\.connect_ex\s*\(",
                r"\bfor\s+\w*port\w*\s+in\b|\bfor\s+\w+\s+in\s+range\s*\([^\n]*\d{3,5}\s*\)",
            ],
        )
    },
    rule(
        About::Python,
        "port scanning: tries one port after the other",
        &[
            r"\bfor\s+\w+\s+in\s+range\s*\(\s*[01]\s*,\s*(?:1000|1001|1024|1025|10000|65535|65536)\s*\)",
            r"\.connect(?:_ex)?\s*\(|\bcreate_connection\s*\(|\bopen_connection\s*\(",
            r"\bsocket\b|\basyncio\b",
        ],
    ),
    rule(
        About::Script,
        "port scanning: tries one port after the other",
        &[
            r"\bfor\s*\([^;\n]*port[^;\n]*;[^;\n]*<=?\s*(?:1000|1024|10000|65535|65536)\b",
            r"\bnew\s+(?:net\.)?Socket\b|\bnet\.(?:connect|createConnection)\b|\.connect\s*\(",
        ],
    ),
    rule(
        About::Code,
        "port scanning: tries one port after the other",
        &[
            r"\bfor\s+\w*port\w*\s*:=\s*\d+\s*;[^;\n]*<=?\s*(?:1000|1024|10000|65535|65536)\b",
            r"\bnet\.Dial",
        ],
    ),
    // Reverse shells, command and control.
    rule(
        About::Shell,
        "reverse shell: a shell on a network connection",
        &[r"\b(?:ba|z|da|k)?sh\b\s+-i\b[^\n]*/dev/(?:tcp|udp)/|\bexec\s+\d+<>\s*/dev/(?:tcp|udp)/"],
    ),
    rule(
        About::Shell,
        "reverse shell: netcat that starts a shell",
        &[concat!(
            r#"\b(?:nc|ncat|netcat)\b["',\s][^\n]*-[a-z]*[ec]["',\s]+"#,
            shell!()
        )],
    ),
    rule(
        About::Shell,
        "reverse shell: a pipe between a shell and the network",
        &[r"\bmkfifo\s+\S+\s*;[^\n]*\b(?:nc|ncat|netcat|telnet|openssl)\b"],
    ),
    rule(
        About::Shell,
        "reverse shell: socat that starts a program",
        &[r"\bsocat\b[^\n]*\bexec:"],
    ),
    rule(
        About::Shell,
        "reverse shell: a shell on a network connection",
        &[
            r"\bperl\s+-e\b[^\n]*\bSocket\b|\bphp\s+-r\b[^\n]*\bfsockopen\b|\bruby\s+-rsocket\b[^\n]*\bexec\b",
        ],
    ),
    rule(
        About::Python,
        "reverse shell: a shell on a network connection",
        &[
            r"\bdup2\s*\(\s*\w+\.fileno\s*\(\s*\)",
            r"\bsocket\b",
            r"\bsh\b|\bbash\b|\bpty\b|subprocess|\bexecv",
        ],
    ),
    rule(
        About::Python,
        "reverse shell: a shell on a terminal of its own",
        &[concat!(r#"\bpty\.spawn\s*\(\s*[\[(]?\s*["']"#, shell!())],
    ),
    rule(
        About::Python,
        "reverse shell: a shell on a network connection",
        &[
            concat!(
                r"\b(?:Popen|call|run)\s*\([^)]*",
                r"(?:/bin/)?(?:ba)?sh\b[^)]*std(?:in|out)\s*=\s*\w*(?:sock|conn|client|\bs)\w*\b"
            ),
            r"\bsocket\.socket\b|\bcreate_connection\b",
        ],
    ),
    rule(
        About::Python,
        "command and control: runs what comes over the network",
        &[
            concat!(runs!(), r"[^\n]*(?:cmd|command|data|decode\s*\()"),
            r"\.recv\s*\(\s*\d+\s*\)",
            r"\bwhile\s+(?:True|1)\s*:",
            r"\.connect\s*\(|\bcreate_connection\b",
        ],
    ),
    rule(
        About::Script,
        "reverse shell: a shell on a network connection",
        &[
            concat!(
                r#"\bspawn\s*\(\s*["'`](?:"#,
                shell!(),
                r"|cmd(?:\.exe)?\b|powershell(?:\.exe)?\b)"
            ),
            r#"require\s*\(\s*["'](?:node:)?(?:net|tls)["']|from\s+["'](?:node:)?(?:net|tls)["']"#,
            r"\.pipe\s*\(",
        ],
    ),
    rule(
        About::Code,
        "reverse shell: a shell on a network connection",
        &[
            concat!(r#"\bexec\.Command\s*\(\s*""#, shell!()),
            r"\bnet\.Dial",
            r"\.Std(?:in|out)\s*=\s*\w*(?:conn|c)\b",
        ],
    ),
    rule(
        About::Code,
        "command and control: names a tool for it",
        &[r"\b(?:meterpreter|msfvenom|msfconsole|cobaltstrike|pupyrat)\b"],
    ),
    // Container escape.
    rule(
        About::Code,
        "container escape: talks to the container engine of the host",
        &[r"/run/(?:docker|containerd/containerd|crio/crio|podman/podman)\.sock\b"],
    ),
    rule(
        About::Code,
        "container escape: reaches into the host's first process",
        &[r"/proc/1/(?:root|ns|cwd)\b|\bnsenter\b"],
    ),
    rule(
        About::Code,
        "container escape: makes the host's kernel start a program",
        &[r"/proc/sys/kernel/core_pattern|\brelease_agent\b|/sys/kernel/uevent_helper"],
    ),
    rule(
        About::Shell,
        "container escape: starts a container with the host's rights",
        &[
            r#"\bdocker\b["',\s]+run\b[^\n]*(?:--privileged|--pid[=\s"',]+host|(?:-v|--volume)["',=\s]+/:/)"#,
        ],
    ),
    rule(
        About::Shell,
        "container escape: mounts a disk of the host",
        &[r#"\bmount\b["',\s][^\n]*/dev/(?:sd[a-z]|vd[a-z]|xvd[a-z]|nvme\d)"#],
    ),
    // Obfuscation.
    rule(
        About::Python,
        "obfuscation: runs code that it decodes first",
        &[concat!(
            r"(?:^|[^.\w])(?:exec|eval)\s*\(\s*[^\n]{0,120}?",
            decodes!()
        )],
    ),
    rule(
        About::Python,
        "obfuscation: runs code that it decodes first",
        &[
            concat!(r"^\s*(\w+)\s*=\s*[^\n]*", decodes!()),
            r"(?:^|[^.\w])(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?NAME\b",
        ],
    ),
    rule(
        About::Python,
        "obfuscation: runs compiled code",
        &[r"\b(?:exec|eval|FunctionType)\s*\(\s*[^\n]{0,80}?\bmarshal\.loads\s*\("],
    ),
    rule(
        About::Python,
        "obfuscation: runs code that is put together from numbers",
        &[
            r#"(?:^|[^.\w])(?:exec|eval)\s*\(\s*(?:""|'')\s*\.\s*join\s*\(\s*(?:\[?\s*chr\b|map\s*\(\s*chr\b)"#,
        ],
    ),
    rule(
        About::Python,
        "obfuscation: hides which module it imports",
        &[
            r#"\b(?:__import__|import_module)\s*\(\s*(?:["'][^"'\n]*["']\s*\[\s*::\s*-1|["'](?:[^"'\n]*\\x[0-9a-f]{2}){3}|(?:""|'')\s*\.\s*join\s*\(\s*(?:\[?\s*chr\b|map\s*\(\s*chr\b)|chr\s*\(|[^\n]{0,60}?b64decode)"#,
        ],
    ),
    rule(
        About::Python,
        "obfuscation: runs a file that is not code",
        &[
            r#"(?:^|[^.\w])exec\s*\(\s*(?:compile\s*\(\s*)?open\s*\(\s*["'][^"'\n]+\.(?:bin|dat|data|png|jpe?g|gif|so|db|tmp|log)["']"#,
        ],
    ),
    rule(
        About::Script,
        "obfuscation: runs code that it decodes first",
        &[
            r#"(?:^|[^.\w])(?:eval|(?:new\s+)?Function)\s*\(\s*[^\n]{0,60}?\b(?:atob|unescape)\s*\(|(?:^|[^.\w])(?:eval|(?:new\s+)?Function|vm\.\w+)\s*\(\s*[^\n]{0,30}?\bBuffer\.from\s*\([^\n]*["'](?:base64|hex)["']"#,
        ],
    ),
    rule(
        About::Script,
        "obfuscation: runs code that it decodes first",
        &[
            r#"\b(\w+)\s*=\s*(?:[^\n;]{0,30}\batob\s*\(|[^\n;]{0,30}\bBuffer\.from\s*\([^\n;]*["'](?:base64|hex)["'])"#,
            r"(?:^|[^.\w])(?:eval|(?:new\s+)?Function|vm\.\w+)\s*\(\s*NAME\b",
        ],
    ),
    rule(
        About::Script,
        "obfuscation: packed code that unpacks and runs itself",
        &[r"\beval\s*\(\s*function\s*\(\s*p\s*,\s*a\s*,\s*c\s*,\s*k\s*,"],
    ),
    rule(
        About::Script,
        "obfuscation: runs code that is put together from numbers",
        &[
            r"\bString\.fromCharCode\s*\(\s*(?:\d+\s*,\s*){20}",
            r"(?:^|[^.\w])(?:eval|(?:new\s+)?Function)\s*\(",
        ],
    ),
    Spec {
        times: 40,
        ..rule(
            About::Script,
            "obfuscation: names and strings are replaced by numbers",
            &[r"\b_0x[0-9a-f]{4,6}\b"],
        )
    },
    rule(
        About::Shell,
        "obfuscation: runs a script that it decodes first",
        &[concat!(
            r"\b(?:base64\s+(?:-d|-D|--decode)|xxd\s+-r\s+-p|openssl\s+enc\s+-d)\b[^\n|]*\|\s*(?:sudo\s+)?",
            shell!()
        )],
    ),
];
