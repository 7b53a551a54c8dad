{{- /* The name of the application. */}}
{{- define "<CHARTNAME>.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of the release's objects; not longer than a DNS label. */}}
{{- define "<CHARTNAME>.fullname" -}}
{{- $name := include "<CHARTNAME>.name" . -}}
{{- $long := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ default $long .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Labels that select the Pods: they never change. */}}
{{- define "<CHARTNAME>.selector" -}}
app.kubernetes.io/name: {{ include "<CHARTNAME>.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of every object. */}}
{{- define "<CHARTNAME>.labels" -}}
{{ include "<CHARTNAME>.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "<CHARTNAME>.serviceAccount" -}}
{{ default (ternary (include "<CHARTNAME>.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}
