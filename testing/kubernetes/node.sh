# The parts of a cluster that a machine has only once: the network, the registry, and the first node with what it leaves
# on the machine; and what every node has of its own. Sourced after lib.sh, with `state` set.

gateway=10.244.0.1 # the machine as nodes and pods call it: the bridge that the pods of the first node hang on

of_node() { # name, folder, suffix of its processes, name of its certificate, number: sets what a node has of its own
  node=$1 at=$2 suffix=$3 identity=$4 bridge=cni$5 subnet=10.244.$5
  socket=$at/containerd/containerd.sock cgroups=/sless-test-kubernetes$suffix
  kubelet_port=$((10250 + 50 * $5)) health_port=$((10248 + 50 * $5)) # of the first: those that Kubernetes has
}
of_node node1 "$state" "" node 0

further_node() { # name: the same for one that `add-node` adds, which has a number
  local number
  [ -f "$state/nodes/$1" ] || return 1
  read -r number <"$state/nodes/$1"
  of_node "$1" "$state/n$number" "-$1" "node-$1" "$number"
}

cgroup_folders() { # the root of the pods' cgroups, in every hierarchy that there is
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then echo "/sys/fs/cgroup$cgroups"
  else awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts | while read -r mount; do echo "$mount$cgroups"; done; fi
}

start_network() {
  ip link show $bridge >/dev/null 2>&1 || ip link add $bridge type bridge
  ip addr replace $subnet.1/24 dev $bridge
  ip link set $bridge up
  ip link set lo up
  sysctl -qw net.ipv4.ip_forward=1
  mkdir -p "$at/cni"
  cat >"$at/cni/10-bridge.conflist" <<CNI
{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"$bridge","isGateway":true,"ipMasq":true,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"$at/cni-data","ranges":[[{"subnet":"$subnet.0/24","rangeStart":"$subnet.10"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
CNI
}

start_registry() { # port. One name of it serves the node, the pods and the tests.
  mkdir -p "$state/registry"
  cat >"$state/registry.yml" <<REG
version: 0.1
storage: {filesystem: {rootdirectory: $state/registry}, delete: {enabled: true}}
http: {addr: "0.0.0.0:$1"}
REG
  run registry docker-registry serve "$state/registry.yml"
  wait_for registry 30 curl -fsS "http://$gateway:$1/v2/"
}

start_containerd() { # port of the registry
  local registry=$gateway:$1
  mkdir -p "$at/containerd/certs.d/$registry"
  printf 'server = "http://%s"\n[host."http://%s"]\n  capabilities = ["pull", "resolve", "push"]\n' "$registry" "$registry" \
    >"$at/containerd/certs.d/$registry/hosts.toml"
  # restrict_oom_score_adj: the machine may lack CAP_SYS_RESOURCE.
  cat >"$at/containerd.toml" <<CTR
version = 3
root = "$at/containerd/root"
state = "$at/containerd/state"
[grpc]
  address = "$socket"
[ttrpc]
  address = "$socket.ttrpc"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "$registry/pause:1"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "$at/containerd/certs.d"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$at/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "$bin/runc"
CTR
  run containerd$suffix containerd -c "$at/containerd.toml"
  wait_for containerd$suffix 60 ctr -a "$socket" version
  "$here/pause" "$registry" >&2
}

start_kubelet() { # further flags…
  cgroup_folders | xargs -r mkdir -p
  mkdir -p "$at/kubelet" "$at/pod-logs"
  : >"$at/resolv.conf"
  # failCgroupV1: kubelet wants to be told that this is meant.
  cat >"$at/kubelet.yaml" <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: $cgroups
containerRuntimeEndpoint: unix://$socket
podLogsDir: $at/pod-logs
port: $kubelet_port
healthzPort: $health_port
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $state/pki/$identity.crt
tlsPrivateKeyFile: $state/pki/$identity.key
evictionHard: {}
enforceNodeAllocatable: []
clusterDNS: ["10.96.0.10"]
clusterDomain: cluster.local
resolvConf: $at/resolv.conf
volumePluginDir: $at/kubelet-plugins
maxPods: 230
KUBELET
  run kubelet$suffix kubelet --config "$at/kubelet.yaml" --kubeconfig "$state/pki/$identity.kubeconfig" \
    --hostname-override "$node" --root-dir "$at/kubelet" --node-ip $gateway "$@"
}

start_dns() { # port of the API server. CoreDNS on the node, behind the usual address.
  cat >"$state/Corefile" <<DNS
.:53 {
  bind $gateway
  errors
  kubernetes cluster.local in-addr.arpa {
    endpoint https://$gateway:$1
    tls $state/pki/admin.crt $state/pki/admin.key $state/pki/ca.crt
    ttl 5
  }
}
DNS
  run coredns coredns -conf "$state/Corefile"
  kubectl apply -f - >/dev/null <<K8S
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.96.0.10, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
endpoints: [{addresses: ["$gateway"]}]
K8S
}

stop_pods() { # of this node, and what ran them
  stop TERM kubelet$suffix
  if [ -S "$socket" ]; then
    crictl -r "unix://$socket" pods -q 2>/dev/null | timeout 60 xargs -r crictl -r "unix://$socket" rmp -f >/dev/null 2>&1
  fi
  stop TERM containerd$suffix
  # Shims outlive containerd where a pod could not be removed.
  for pid in $(grep -lz -- "$socket" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3); do
    { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q containerd-shim && kill -KILL "$pid" 2>/dev/null
  done
  awk -v r="$at/" 'index($2, r) == 1 {print $2}' /proc/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
}

remove_network() { # of this node, and its cgroups
  ip link del $bridge 2>/dev/null
  cgroup_folders | while read -r folder; do [ -d "$folder" ] && find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null; done
}

# Removes what the first node and its cluster leave on the machine.
stop_node() {
  stop_pods
  stop TERM kwok kube-router kube-proxy coredns scheduler controller-manager registry
  # kube-router's rules, chains and sets, and kube-proxy's tables.
  for table in filter nat mangle; do
    iptables-save -t $table 2>/dev/null | grep -E '^-A .*KUBE-(ROUTER|POD-FW|NWPLCY)' | sed "s/^-A/-t $table -D/" | while read -r rule; do eval "iptables $rule" 2>/dev/null; done
    for flag in -F -X; do
      iptables-save -t $table 2>/dev/null | grep -oE '^:KUBE-(ROUTER|POD-FW|NWPLCY)[^ ]*' | cut -c2- | while read -r chain; do iptables -t $table $flag "$chain"; done
    done
  done
  ipset list -n 2>/dev/null | grep -E '^(inet6:)?(KUBE-|kube-router)' | while read -r set; do ipset destroy "$set" 2>/dev/null; done
  nft delete table ip kube-proxy 2>/dev/null
  nft delete table ip6 kube-proxy 2>/dev/null
  remove_network
  [ -f "$current" ] && [ "$(head -n 1 "$current")" = "$state" ] && rm -f "$current"
  return 0
}
