{{- define "blocks.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "blocks.resources" -}}
requests:
  memory: {{ int . }}Mi
limits:
  memory: {{ mul . 2 }}Mi
{{- end }}

{{- define "blocks.service" -}}
{{- with .context -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) .Chart.IsRoot }}
  labels: {{- include "blocks.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector: {{- include "blocks.labels" . | nindent 4 }}
  ports:
    - port: {{ $.port }}
{{- end }}
{{- end }}
