package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// generate writes random cases: objects of many kinds that name each other, a base, overlays, and fields of kustomizations.
func generate(dir, count, seed string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	from, err := strconv.ParseInt(seed, 10, 64)
	if err != nil {
		return err
	}
	for i := range n {
		g := &generator{Rand: rand.New(rand.NewSource(from + int64(i))), known: map[string][]string{}}
		one := filepath.Join(dir, fmt.Sprintf("case-%d", from+int64(i)))
		if err := os.MkdirAll(one, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(one, "files.txt"), []byte(g.text()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type generator struct {
	*rand.Rand
	// The names of the objects of each kind.
	known map[string][]string
}

// of is the name of an object of a kind: one that exists, but for one time in twenty.
func (g *generator) of(kind string) string {
	if names := g.known[kind]; len(names) > 0 && g.Intn(20) > 0 {
		return names[g.Intn(len(names))]
	}
	return g.name()
}

// has is whether a field that needs an object of a kind makes sense.
func (g *generator) has(kind string) bool { return len(g.known[kind]) > 0 || g.Intn(20) == 0 }

func (g *generator) pick(list ...string) string { return list[g.Intn(len(list))] }

func (g *generator) maybe(text string) string {
	if g.Intn(2) == 0 {
		return ""
	}
	return text
}

func (g *generator) name() string { return g.pick("a", "b", "c", "web", "db") }

func (g *generator) value() string {
	return g.pick("x", `"1"`, "1", "true", `"yes"`, "yes", "1.5", "~", `""`, "'a: b'", "0o7", "1e3", "2020-01-01", "a-b")
}

// text is a case: its command and its files.
func (g *generator) text() string {
	var out strings.Builder
	out.WriteString("build top\n")
	fmt.Fprintf(&out, "-- base/objects.yaml --\n%s", g.objects())
	g.kustomization(&out, "base", "resources: [objects.yaml]\n")
	switch g.Intn(3) {
	case 0:
		g.kustomization(&out, "top", "resources: [../base]\n")
	case 1:
		g.kustomization(&out, "middle", "resources: [../base]\n")
		g.kustomization(&out, "top", "resources: [../middle]\n")
	case 2:
		g.kustomization(&out, "one", "resources: [../base]\nnamePrefix: one-\n")
		g.kustomization(&out, "two", "resources: [../base]\nnameSuffix: -two\n")
		g.kustomization(&out, "top", "resources: [../one, ../two]\n")
	}
	return out.String()
}

func (g *generator) objects() string {
	var list []string
	seen := map[string]bool{}
	for range 3 + g.Intn(6) {
		kind := g.pick("Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "ServiceAccount", "RoleBinding", "Role",
			"CronJob", "Ingress", "Namespace", "Custom", "Pod", "ClusterRoleBinding", "ClusterRole", "PersistentVolumeClaim")
		name := g.name()
		namespace := g.pick("", "", "", "x", "y")
		if key := kind + name + namespace; seen[key] || seen[kind+name] {
			continue
		} else {
			seen[key], seen[kind+name] = true, true
		}
		list = append(list, g.object(kind, name, namespace))
		g.known[kind] = append(g.known[kind], name)
	}
	if len(list) == 0 {
		list = append(list, g.object("ConfigMap", "a", ""))
	}
	return strings.Join(list, "---\n")
}

func (g *generator) object(kind, name, namespace string) string {
	versions := map[string]string{
		"Deployment": "apps/v1", "StatefulSet": "apps/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
		"Role": "rbac.authorization.k8s.io/v1", "ClusterRole": "rbac.authorization.k8s.io/v1",
		"ClusterRoleBinding": "rbac.authorization.k8s.io/v1", "CronJob": "batch/v1",
		"Ingress": "networking.k8s.io/v1", "Custom": "example.com/v1",
	}
	version := versions[kind]
	if version == "" {
		version = "v1"
	}
	head := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", version, kind, name)
	if namespace != "" {
		head += "  namespace: " + namespace + "\n"
	}
	head += g.maybe(fmt.Sprintf("  labels: {app: %s, other: %s}\n", g.name(), g.pick("x", `"1"`, "a-b")))
	head += g.maybe(fmt.Sprintf("  annotations: {note: %s}\n", g.value()))
	return head + g.body(kind)
}

func (g *generator) pod(indent string) string {
	text := fmt.Sprintf(`containers:
- name: %s
  image: %s
  ports: [{containerPort: 80}, {containerPort: 81, protocol: UDP}]
  args: ["--a=$(VAR0)", %s]
  env:
  - {name: A, value: %s}
  - {name: B, valueFrom: {configMapKeyRef: {name: %s, key: k}}}
  envFrom: [{secretRef: {name: %s}}]
  volumeMounts: [{name: v, mountPath: /v}]
volumes:
- {name: v, configMap: {name: %s}}
- {name: w, secret: {secretName: %s}}
serviceAccountName: %s
`, g.name(), g.pick("nginx:1", "nginx", "x.io/y/z@sha256:ab", "x.io:5000/y/z:2"), g.pick("b", `"1"`), g.pick("x", `"1"`), g.name(), g.name(), g.name(), g.name(), g.name())
	return indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent) + "\n"
}

func (g *generator) body(kind string) string {
	subject := func() string {
		return fmt.Sprintf("{kind: %s, name: %s%s}", g.pick("ServiceAccount", "ServiceAccount", "User"), g.pick("default", g.name()),
			g.maybe(", namespace: "+g.pick("x", "y", "default")))
	}
	switch kind {
	case "Deployment", "StatefulSet":
		return fmt.Sprintf("spec:\n  replicas: %d\n  selector: {matchLabels: {app: %s}}\n  template:\n    metadata: {labels: {app: %s}}\n    spec:\n%s",
			g.Intn(4), g.name(), g.name(), g.pod("      "))
	case "Pod":
		return "spec:\n" + g.pod("  ")
	case "CronJob":
		return "spec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n" + g.pod("          ")
	case "Service":
		return fmt.Sprintf("spec:\n  selector: {app: %s}\n  ports:\n  - {name: p, port: 80, targetPort: %s}\n", g.name(), g.pick("80", "web"))
	case "ConfigMap":
		return fmt.Sprintf("data:\n  k: %s\n  text: |\n    one: 1\n    two: [a, b]\n", g.value())
	case "Secret":
		return "stringData: {k: v}\ntype: Opaque\n"
	case "Role", "ClusterRole":
		return fmt.Sprintf("rules:\n- {apiGroups: [\"\"], resources: [%s], resourceNames: [%s], verbs: [get]}\n", g.pick("configmaps", "secrets"), g.name())
	case "RoleBinding", "ClusterRoleBinding":
		return fmt.Sprintf("roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\nsubjects: [%s, %s]\n",
			g.pick("Role", "ClusterRole"), g.name(), subject(), subject())
	case "Ingress":
		return fmt.Sprintf("spec:\n  tls: [{secretName: %s}]\n  rules: [{http: {paths: [{path: /, backend: {service: {name: %s, port: {number: 80}}}}]}}]\n", g.name(), g.name())
	case "ServiceAccount":
		return fmt.Sprintf("secrets: [{name: %s}]\n", g.name())
	case "Custom":
		return fmt.Sprintf("spec: {ref: {name: %s}, list: [%s, %s], value: %s}\n", g.name(), g.value(), g.value(), g.value())
	}
	return ""
}

// field is a field of a kustomization.
func (g *generator) field(kind int) string {
	target := func() string {
		return fmt.Sprintf("{kind: %s%s%s}", g.pick("Deployment", "ConfigMap", "Service", ".*", "Secret|Pod"),
			g.maybe(", name: "+g.pick("a", ".*", "we.", "one-.*")), g.maybe(`, labelSelector: "`+g.pick("app=a", "app in (a,web)", "!other", "other!=x")+`"`))
	}
	switch kind {
	case 0:
		return "namePrefix: " + g.pick("p-", "q-") + "\n"
	case 1:
		return "nameSuffix: " + g.pick("-s", "-t") + "\n"
	case 2:
		return "namespace: " + g.pick("x", "z") + "\n"
	case 3:
		return fmt.Sprintf("commonLabels: {team: %s}\n", g.pick("x", `"1"`, `"true"`))
	case 4:
		return fmt.Sprintf("labels:\n- pairs: {l: %s}\n  includeSelectors: %s\n- pairs: {m: x}\n  includeTemplates: %s\n", g.pick("x", `"1"`), g.pick("true", "false"), g.pick("true", "false"))
	case 5:
		return "commonAnnotations: {c: " + g.pick("x", `"1"`, `"a: b"`) + "}\n"
	case 6:
		return fmt.Sprintf("images:\n- {name: %s, %s}\n", g.pick("nginx", "x.io/y/z", ".*", "x.io:5000/y/z"), g.pick("newTag: v2", "newName: n.io/m", "digest: sha256:cd", "tagSuffix: -x", "newTag: \"3\", digest: sha256:ef"))
	case 7:
		name, behavior := "made-"+g.name(), ""
		if g.has("ConfigMap") && g.Intn(2) == 0 {
			name, behavior = g.of("ConfigMap"), "behavior: "+g.pick("merge", "replace")+"\n  "
		}
		return fmt.Sprintf("configMapGenerator:\n- name: %s\n  %sliterals: [k=%s, z=1]\n%s", name, behavior, g.name(), g.maybe("generatorOptions: {labels: {g: x}, disableNameSuffixHash: true}\n"))
	case 8:
		return fmt.Sprintf("secretGenerator:\n- name: made-%s\n  literals: [k=%s]\n", g.name(), g.name())
	case 9:
		return fmt.Sprintf("patches:\n- target: %s\n  patch: |-\n    - {op: %s, path: /metadata/%s, value: %s}\n", target(), g.pick("add", "add", "replace"), g.pick("labels", "annotations", "labels", "name"), g.pick("{a: b}", "{a: b}", "{a: b}", "changed"))
	case 10:
		return fmt.Sprintf("patches:\n- target: %s\n  patch: |-\n    kind: Any\n    apiVersion: v1\n    metadata: {name: any, labels: {patched: %s, other: null}%s}\n    spec:\n      template:\n        spec:\n          containers:\n          - {name: %s, image: patched, env: [{name: A, value: new}], ports: [{containerPort: 81}]}\n",
			target(), g.pick("x", "1", `"1"`), g.maybe(`, annotations: {$patch: replace, only: "1"}`), g.name())
	case 11:
		if !g.has("Deployment") {
			return ""
		}
		return fmt.Sprintf("patchesStrategicMerge:\n- |-\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: %s}\n  %s\n", g.of("Deployment"), g.pick("spec: {replicas: 7}", "$patch: delete", "spec: {template: {spec: {volumes: [{name: v, $patch: delete}]}}}"))
	case 12:
		kind := g.pick("Service", "ConfigMap", "Deployment")
		if !g.has(kind) {
			return ""
		}
		return fmt.Sprintf("replacements:\n- source: {kind: %s, name: %s%s}\n  targets:\n  - select: {kind: %s}\n    fieldPaths: [%s]\n    options: {create: %s}\n",
			kind, g.of(kind), g.maybe(", fieldPath: "+g.pick("metadata.labels.app", "data.k", "spec.replicas")),
			g.pick("Custom", "Deployment", "ConfigMap"), g.pick("metadata.annotations.r", "spec.template.spec.containers.*.image", "data.text.one", "spec.list.1", "spec.ref.name"), g.pick("true", "true", "false"))
	case 13:
		if !g.has("Deployment") {
			return ""
		}
		return fmt.Sprintf("replicas:\n- {name: %s, count: %d}\n", g.of("Deployment"), g.Intn(9))
	case 14:
		if !g.has("Service") {
			return ""
		}
		return fmt.Sprintf("vars:\n- name: VAR%d\n  objref: {apiVersion: v1, kind: Service, name: %s}\n", g.Intn(3), g.of("Service"))
	case 15:
		return fmt.Sprintf("sortOptions: {order: %s}\n", g.pick("fifo", "legacy"))
	case 16:
		return fmt.Sprintf("buildMetadata: [%s]\n", g.pick("originAnnotations", "transformerAnnotations", "managedByLabel"))
	}
	return "transformers:\n- |-\n  apiVersion: builtin\n  kind: NamespaceTransformer\n  metadata: {name: t, namespace: " + g.pick("x", "u") +
		"}\n  unsetOnly: " + g.pick("true", "false") + "\n  setRoleBindingSubjects: " + g.pick("defaultOnly", "allServiceAccounts", "none") + "\n"
}

func (g *generator) kustomization(out *strings.Builder, dir, start string) {
	fmt.Fprintf(out, "-- %s/kustomization.yaml --\n%s", dir, start)
	seen := map[string]bool{}
	for range g.Intn(5) {
		field := g.field(g.Intn(18))
		key, _, _ := strings.Cut(field, ":")
		if field == "" || seen[key] || strings.Contains(start, key+":") || strings.Contains(field, "generatorOptions") && seen["generatorOptions"] {
			continue
		}
		seen[key] = true
		out.WriteString(field)
	}
}
