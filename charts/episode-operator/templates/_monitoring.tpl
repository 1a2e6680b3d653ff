{{/* Name of the Service by which a component's metrics are found. */}}
{{- define "episode-operator.metrics-service" -}}
{{- if eq .component "operator" }}{{ .Release.Name }}-metrics
{{- else if eq .component "bridge" }}{{ .Release.Name }}-bridge-metrics
{{- else }}{{ .Release.Name }}-{{ .component }}
{{- end }}
{{- end }}

{{/* Whether the component has metrics in this release: "true" or nothing. */}}
{{- define "episode-operator.has-metrics" -}}
{{- $values := get .Values .component }}
{{- if and $values.enabled (or (ne .component "bridge") $values.config.metrics_port) }}true{{ end }}
{{- end }}

{{/* The component's alerts, as a list; runbook and labels of the release are put in. */}}
{{- define "episode-operator.alerts" -}}
{{- $target := printf "namespace=%q,service=%q" .Release.Namespace (include "episode-operator.metrics-service" .) }}
{{- $rules := .Values.monitoring.rules }}
{{- $text := .Files.Get (printf "files/rules/%s.yaml" .component) | replace (printf "$%s" .component) $target }}
{{- $text = replace "$noVerdictShare" (toString $rules.noVerdictShare) $text }}
{{- $alerts := fromYamlArray $text }}
{{- range $alerts }}
{{- $_ := set .annotations "runbook_url" (printf "%s#%s" $rules.runbookUrl (lower .alert)) }}
{{- $_ := merge .labels (dict "namespace" $.Release.Namespace "release" $.Release.Name) }}
{{- end }}
{{- toYaml $alerts }}
{{- end }}
