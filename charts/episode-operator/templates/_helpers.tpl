{{- define "episode-operator.labels" -}}
app.kubernetes.io/name: episode-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "episode-operator.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* URL of the release's Atropos server. */}}
{{- define "episode-operator.atropos-url" -}}
http://{{ .Release.Name }}-atropos.{{ .Release.Namespace }}.svc:8000
{{- end }}

{{/* Namespace of the Episode of `helm test`. */}}
{{- define "episode-operator.test-namespace" -}}
{{ .Values.test.namespace | default (first .Values.operator.watchNamespaces) | default .Release.Namespace }}
{{- end }}

{{/* Annotations of what `helm test` needs, and takes away again. */}}
{{- define "episode-operator.test-hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Rules of the operator inside a namespace whose Episodes it runs. */}}
{{- define "episode-operator.rules" -}}
- apiGroups: [episodes.dev]
  resources: [episodes]
  verbs: [get, list, watch, delete]
- apiGroups: [episodes.dev]
  resources: [episodes/status, episoderesults/status]
  verbs: [patch]
- apiGroups: [episodes.dev]
  resources: [episoderesults]
  verbs: [get, list, create, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create]
{{- if .Values.operator.secretReferences }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, create, delete]
- apiGroups: [cilium.io]
  resources: [ciliumnetworkpolicies]
  verbs: [list, create, delete]
{{- end }}
