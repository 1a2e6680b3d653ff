{{/* Namespace of the bridge's Episodes. */}}
{{- define "episode-operator.bridge-namespace" -}}
{{ .Values.bridge.config.namespace | default .Release.Namespace }}
{{- end }}

{{/* The bridge's configuration file; the release's own Atropos server is the default of its sink. */}}
{{- define "episode-operator.bridge-config" -}}
{{- $config := deepCopy .Values.bridge.config -}}
{{- if and .Values.atropos.enabled (eq (dig "sink" "kind" "" $config) "atropos") -}}
{{- $_ := merge $config.sink (dict "url" (include "episode-operator.atropos-url" .)) -}}
{{- end -}}
{{- toPrettyJson $config -}}
{{- end }}

{{/* Rules of the bridge in the namespace of its Episodes. */}}
{{- define "episode-operator.bridge-rules" -}}
{{- $state := printf "trainer-bridge-%s" .Values.bridge.config.run -}}
- apiGroups: [episodes.dev]
  resources: [episodes]
  verbs: [get, list, watch, create, delete]
- apiGroups: [episodes.dev]
  resources: [episoderesults]
  verbs: [get, list, delete]
- apiGroups: [episodes.dev]
  resources: [episoderesults/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ $state }}]
  verbs: [patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ $state }}]
  verbs: [get, update]
{{- end }}

{{/* The bridge's pod; restartPolicy is of whoever owns it. */}}
{{- define "episode-operator.bridge-pod" -}}
metadata:
  labels:
    {{- include "episode-operator.labels" . | nindent 4 }}
    app.kubernetes.io/component: bridge
  annotations:
    checksum/config: {{ include "episode-operator.bridge-config" . | sha256sum }}
    {{- with .Values.bridge.config.metrics_port }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ . | quote }}
    {{- end }}
spec:
  serviceAccountName: {{ .Release.Name }}-bridge
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- if ne .Values.bridge.mode "serve" }}
  restartPolicy: OnFailure
  {{- end }}
  # A send under way has 120 s to settle, Atropos 120 s to answer a farewell, W&B 60 s to close.
  terminationGracePeriodSeconds: 300
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 2 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: bridge
    image: {{ .Values.bridge.image }}
    imagePullPolicy: {{ .Values.bridge.imagePullPolicy }}
    args:
    - {{ .Values.bridge.mode }}
    - --config=/etc/trainer-bridge/config.yaml
    {{- range .Values.bridge.extraArgs }}
    - {{ . | quote }}
    {{- end }}
    {{- with .Values.bridge.env }}
    env: {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.bridge.envFrom }}
    envFrom: {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.bridge.config.metrics_port }}
    ports:
    - {name: metrics, containerPort: {{ . }}}
    # They are there once the bridge holds its run's lease.
    readinessProbe:
      httpGet: {path: /metrics, port: metrics}
      periodSeconds: 5
      timeoutSeconds: 5
    {{- end }}
    resources: {{- toYaml .Values.bridge.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
    - {name: config, mountPath: /etc/trainer-bridge, readOnly: true}
    - {name: scratch, mountPath: /tmp}
    {{- with .Values.bridge.extraVolumeMounts }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
  - name: config
    configMap: {name: {{ .Release.Name }}-bridge}
  - name: scratch
    emptyDir: {sizeLimit: {{ .Values.bridge.scratchSize }}}
  {{- with .Values.bridge.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
  {{- with .Values.bridge.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.bridge.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
