# What the scripts of this folder share. Sourced, not run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=1.36.3
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sless/tools/kubernetes-$version
bin=$cache/bin
export PATH=$bin:$PATH
# The one cluster with a node that this machine has, if it has one: its state folder and its owner.
current=/run/sless-test-kubernetes

say() { echo "kubernetes: $*" >&2; }
fail() { say "$*"; exit 1; }

# Processes. A number can be given to another process later, so it is kept with the time of the start.
started_at() { awk '{sub(/^.*\) /, ""); print $20}' "/proc/$1/stat" 2>/dev/null; }
alive() { # name
  local pid at
  [ -f "$state/pids/$1" ] && read -r pid at <"$state/pids/$1" && [ -n "$at" ] && [ "$(started_at "$pid")" = "$at" ]
}
start() { # name: runs the command that `define` kept, unless it runs already
  local name=$1 pid
  if alive "$name"; then return 0; fi
  local -a command
  mapfile -d '' -t command <"$state/commands/$name"
  setsid "${command[@]}" >>"$state/logs/$name.log" 2>&1 </dev/null &
  pid=$!
  # Until exec, the process is a copy of this shell; its start time is its own already.
  echo "$pid $(started_at "$pid")" >"$state/pids/$name"
}
define() { # name, command…
  local name=$1; shift
  printf '%s\0' "$@" >"$state/commands/$name"
}
run() { define "$@"; start "$1"; }
stop() { # signal, name…: the signal, ten seconds, SIGKILL
  local signal=$1 name pid rest left; shift
  for name in "$@"; do
    if alive "$name"; then read -r pid rest <"$state/pids/$name"; kill "-$signal" "$pid" 2>/dev/null || true; fi
  done
  for _ in $(seq 200); do
    left=0
    for name in "$@"; do if alive "$name"; then left=1; fi; done
    [ $left = 0 ] && break
    sleep 0.05
  done
  for name in "$@"; do
    if alive "$name"; then read -r pid rest <"$state/pids/$name"; kill -KILL "$pid" 2>/dev/null || true; fi
    rm -f "$state/pids/$name"
  done
}
end_with() { # owner, name, command…: runs the command once the process `owner` has ended
  local owner=$1 name=$2 at; shift 2
  at=$(started_at "$owner"); [ -n "$at" ] || fail "there is no process $owner"
  run "$name" bash -c '
    while [ "$(awk "{sub(/^.*\\) /, \"\"); print \$20}" "/proc/$1/stat" 2>/dev/null)" = "$2" ]; do sleep 0.5; done
    rm -f "$3"; shift 3; exec "$@"' "$name" "$owner" "$at" "$state/pids/$name" "$@"
}
wait_for() { # name, seconds, command…: until the command succeeds
  local name=$1 seconds=$2; shift 2
  local deadline=$((SECONDS + seconds))
  while [ $SECONDS -lt $deadline ]; do
    "$@" >/dev/null 2>&1 && return 0
    if [ -f "$state/pids/$name" ] && ! alive "$name"; then
      tail -n 20 "$state/logs/$name.log" >&2; fail "$name ended"
    fi
    sleep 0.1
  done
  tail -n 20 "$state/logs/$name.log" >&2; fail "$name was not ready within $seconds seconds"
}

free_ports() { # how many
  python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])
PY
}

packages() { # apt packages, each with the file that shows that it is there: name=file…
  local missing=() pair
  for pair in "$@"; do
    if [[ ${pair#*=} == /* ]]; then [ -e "${pair#*=}" ] || missing+=("${pair%%=*}")
    else command -v "${pair#*=}" >/dev/null || missing+=("${pair%%=*}"); fi
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  [ "$(id -u)" = 0 ] || fail "missing packages, and this is not root: ${missing[*]}"
  command -v apt-get >/dev/null || fail "missing programs, and there is no apt-get: ${missing[*]}"
  say "installing ${missing[*]}"
  local log; log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 \
    || { apt-get -o DPkg::Lock::Timeout=300 update >>"$log" 2>&1 \
      && apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; } \
    || { tail -n 20 "$log" >&2; fail "apt-get could not install ${missing[*]}"; }
  rm -f "$log"
}

# Certificates: one authority per cluster, keys of elliptic curves since they are made in no time.
authority() {
  local pki=$state/pki
  [ -f "$pki/ca.crt" ] && return 0
  local ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
  openssl req -x509 "${ec[@]}" -keyout "$pki/ca.key" -out "$pki/ca.crt" -subj /CN=sless-test -days 30 2>/dev/null
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$pki/sa.key" 2>/dev/null
  openssl pkey -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
}
certificate() { # name, subject, [subject alternative names]
  local pki=$state/pki
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "$2" 2>/dev/null
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -out "$pki/$1.crt" -days 30 \
    -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}") 2>/dev/null
  rm "$pki/$1.csr"
}
kubeconfig() { # name, server
  local pki=$state/pki
  cat >"$pki/$1.kubeconfig" <<KC
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 "$pki/ca.crt")}}]
users: [{name: user, user: {client-certificate-data: $(base64 -w0 "$pki/$1.crt"), client-key-data: $(base64 -w0 "$pki/$1.key")}}]
contexts: [{name: test, context: {cluster: test, user: user}}]
current-context: test
KC
}

folders() { mkdir -p "$state"/{pki,etcd,logs,pids,commands}; }

etcd_and_api_server() { # address to listen on, address to announce, further flags of the API server…
  local listen=$1 address=$2 pki=$state/pki; shift 2
  read -r etcd_port peer_port api_port _ <"$state/ports"
  run etcd etcd --data-dir "$state/etcd" --listen-client-urls "http://127.0.0.1:$etcd_port" \
    --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls "http://127.0.0.1:$peer_port" --unsafe-no-fsync
  # Without this the API server waits for etcd in growing pauses.
  wait_for etcd 60 curl -fsS "http://127.0.0.1:$etcd_port/health"
  run apiserver kube-apiserver --etcd-servers "http://127.0.0.1:$etcd_port" --bind-address "$listen" \
    --advertise-address "$address" --secure-port "$api_port" \
    --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt" \
    --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
    --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range 10.96.0.0/16 \
    --authorization-mode Node,RBAC --allow-privileged "$@"
  wait_for apiserver 120 kubectl --kubeconfig "$pki/admin.kubeconfig" get --raw /readyz
}
