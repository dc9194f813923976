{{/* What all objects are named after: the release, where it is named after the chart. */}}
{{- define "sless.name" -}}
{{- if contains "sless" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sless" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What Deployments select by, and Services and policies with them. Takes (root, role); no role is all of them. */}}
{{- define "sless.selector" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
app.kubernetes.io/name: sless
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with $role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "sless.labels" -}}
{{- $root := index . 0 -}}
{{ include "sless.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The roles that are Deployments. */}}
{{- define "sless.roles" -}}
{{- if .Values.one -}}api{{- else -}}api operator dispatcher{{- end -}}
{{- end -}}

{{/* Whose pods take on a role. */}}
{{- define "sless.account" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{ include "sless.name" $root }}-{{ if $root.Values.one }}api{{ else }}{{ $role }}{{ end }}
{{- end -}}

{{- define "sless.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "sless.settings" -}}
{{- $settings := dict
  "SLESS_BACKEND" "kubernetes"
  "SLESS_LISTEN" "0.0.0.0:8080"
  "SLESS_DATA_DIR" "/var/lib/sless"
  "SLESS_HS256_KEY_FILE" "/etc/sless/keys/hs256.key"
  "SLESS_LOG_FORMAT" "json" -}}
{{- if .Values.cluster -}}
{{- $_ := set $settings "SLESS_KUBERNETES_FILE" "/etc/sless/cluster/cluster.toml" -}}
{{- end -}}
{{- range $name, $value := merge (deepCopy .Values.settings) $settings }}
{{ $name }}: {{ $value | toString | quote }}
{{- end }}
{{- end -}}
