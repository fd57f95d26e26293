{{- define "headgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "headgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "headgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* “true” if the configuration or one of its policies uses the failure mode “local”. */ -}}
{{- define "headgate.local" -}}
{{- $local := eq (toString .Values.config.on_store_error) "local" }}
{{- range $policy := .Values.config.policies }}
{{- if eq (toString $policy.on_store_error) "local" }}{{ $local = true }}{{ end }}
{{- end }}
{{- if $local }}true{{ end }}
{{- end }}

{{- /* The content of headgate.yaml, with “instances” for the failure mode “local”. */ -}}
{{- define "headgate.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if and (include "headgate.local" .) (not (hasKey $config "instances")) }}
{{- if .Values.autoscaling.enabled }}
{{- fail "config.instances is missing: with on_store_error \"local\" each instance allows that fraction of a limit while the store is unavailable, and autoscaling changes the number of instances. Set config.instances to autoscaling.maxReplicas, or use on_store_error \"open\" or \"closed\"." }}
{{- end }}
{{- $_ := set $config "instances" (int .Values.replicas) }}
{{- end }}
{{- toYaml $config }}
{{- end }}
