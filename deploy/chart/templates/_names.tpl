{{- define "fabric.labels" -}}
app.kubernetes.io/name: fabric-flow
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fabric.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{- define "fabric.container" -}}
image: "{{ .Values.image.repository }}{{ if hasPrefix "@" .Values.image.tag }}{{ .Values.image.tag }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
env:
  # Not the mount itself, which belongs to root: the program makes this folder, for itself alone.
  - name: FABRIC_DATA
    value: /data/fabric
  - name: FABRIC_PUBLIC_URL
    value: {{ required "publicUrl is missing: the https address that people type" .Values.publicUrl | quote }}
  - name: FABRIC_TRUSTED_PROXIES
    value: {{ required "trustedProxies is missing: the addresses of the ingress controller" .Values.trustedProxies | quote }}
  {{- range .Values.secretKeys }}
  - name: {{ . }}
    valueFrom: {secretKeyRef: {name: {{ $.Values.secret | quote }}, key: {{ . | quote }} } }
  {{- end }}
  {{- range $name, $value := .Values.environment }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- end }}
