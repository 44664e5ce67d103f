{{- define "gpucommons.labels" -}}
app.kubernetes.io/name: gpucommons
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- /* Of one part: (list . "scheduler") */ -}}
{{- define "gpucommons.selector" -}}
app.kubernetes.io/name: gpucommons
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "gpucommons.partLabels" -}}
{{ include "gpucommons.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* What Zero to JupyterHub's network policy asks of pods that call the hub. */ -}}
{{- define "gpucommons.callsHub" -}}
hub.jupyter.org/network-access-hub: "true"
{{- end }}

{{- define "gpucommons.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "gpucommons.hubNamespace" -}}
{{ .Values.hub.namespace | default .Release.Namespace }}
{{- end }}

{{- define "gpucommons.hubApi" -}}
{{ .Values.hub.apiUrl | default (printf "http://hub.%s.svc:8081/hub/api" (include "gpucommons.hubNamespace" .)) }}
{{- end }}

{{- define "gpucommons.apiUrl" -}}
http://gpucommons-api.{{ .Release.Namespace }}.svc:8000
{{- end }}

{{- define "gpucommons.tokens" -}}
{{ .Values.hub.tokensSecret.name | default "gpucommons-hub-tokens" }}
{{- end }}

{{- define "gpucommons.agentNamespace" -}}
{{ .Values.agent.namespace | default .Release.Namespace }}
{{- end }}

{{- /* Every namespace in which jobs run, as JSON. */ -}}
{{- define "gpucommons.jobNamespaces" -}}
{{ concat (list .Values.jobs.namespace) (values .Values.jobs.teamNamespaces) | uniq | sortAlpha | toJson }}
{{- end }}

{{- define "gpucommons.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* What PodSecurity restricted asks of a pod and of a container. */ -}}
{{- define "gpucommons.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- if not .Values.openshift.enabled }}
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpucommons.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "gpucommons.token" -}}
- name: JUPYTERHUB_API_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "gpucommons.tokens" (index . 0) }}, key: {{ index (index . 0).Values.hub.tokensSecret (index . 1) | quote }}}}
{{- end }}

{{- /* The file that the scheduler's --kubernetes takes. */ -}}
{{- define "gpucommons.kubernetes" -}}
{{- $jobs := .Values.jobs }}
{{- $found := dict
  "instance" .Release.Name
  "namespace" $jobs.namespace
  "system_namespace" .Release.Namespace
  "hub_namespace" (include "gpucommons.hubNamespace" .)
  "team_namespaces" $jobs.teamNamespaces
  "environments" $jobs.environments
  "any_image" $jobs.anyImage
  "image_pull_secrets" $jobs.imagePullSecrets
  "service_account" ($jobs.serviceAccount | default nil)
  "run_as_user" (int64 $jobs.runAsUser)
  "run_as_group" (int64 $jobs.runAsGroup)
  "priority_class" "gpucommons-training"
  "reservation_priority_class" "gpucommons-reservation"
  "placeholder_priority_class" "gpucommons-placeholder"
  "placeholder_owner" "gpucommons-scheduler"
  "own_image" (include "gpucommons.image" .)
  "image_pull_policy" $jobs.imagePullPolicy
  "agents" .Values.agent.enabled
  "agent_namespace" (include "gpucommons.agentNamespace" .)
  "agent_service_account" "gpucommons-agent"
  "agent_ca_file" "/etc/gpucommons/agent-ca/ca.crt"
  "agent_server_name" "gpucommons-agent"
  "keep_finished_s" (int64 $jobs.keepFinishedSeconds)
  "hibernation" .Values.hibernation.enabled
  "pools" $jobs.pools
  "pod" $jobs.pod
  "home" $jobs.home
}}
{{- toYaml $found }}
{{- end }}

{{- /* With SQLite a successor goes where the volume is mounted already, whatever else is asked for. */ -}}
{{- define "gpucommons.schedulerAffinity" -}}
{{- $given := deepCopy .Values.scheduler.affinity }}
{{- if and (eq .Values.database.kind "sqlite") (ne .Values.database.sqlite.accessMode "ReadWriteMany") }}
{{- $selector := dict "matchLabels" (include "gpucommons.selector" (list . "scheduler") | fromYaml) }}
{{- $beside := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector }}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- $terms := append (dig "podAffinity" $required list $given) $beside }}
{{- $given = mergeOverwrite $given (dict "podAffinity" (dict $required $terms)) }}
{{- end }}
{{- toYaml $given }}
{{- end }}
