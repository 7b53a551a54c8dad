// Command flux-api records what the CRDs of Flux's API say, as controller-gen makes them of Flux's Go types: one fact a line,
// one file a CRD. Descriptions and messages are left out: they are texts, not rules.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/fluxcd/helm-controller/api/v2"
	_ "github.com/fluxcd/notification-controller/api/v1"
	_ "github.com/fluxcd/notification-controller/api/v1beta3"
	_ "github.com/fluxcd/source-controller/api/v1"
	gopackages "golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	toolmarkers "sigs.k8s.io/controller-tools/pkg/markers"
)

var packages = []string{
	"github.com/fluxcd/helm-controller/api/v2",
	"github.com/fluxcd/notification-controller/api/v1",
	"github.com/fluxcd/notification-controller/api/v1beta3",
	"github.com/fluxcd/source-controller/api/v1",
}

func main() {
	if len(os.Args) != 2 {
		panic("usage: flux-api FOLDER")
	}
	roots, err := loader.LoadRoots(packages...)
	check(err)
	registry := &toolmarkers.Registry{}
	check(markers.Register(registry))
	parser := &crd.Parser{
		Collector: &toolmarkers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{},
	}
	crd.AddKnownTypes(parser)
	for _, root := range roots {
		parser.NeedPackage(root)
	}
	for _, kind := range crd.FindKubeKinds(parser, crd.FindMetav1(roots)) {
		parser.NeedCRDFor(kind, nil)
		made := parser.CustomResourceDefinitions[kind]
		crd.FixTopLevelMetadata(made)
		text, err := json.Marshal(made)
		check(err)
		var object map[string]any
		check(json.Unmarshal(text, &object))
		file := filepath.Join(os.Args[1], made.Name+".txt")
		check(os.WriteFile(file, []byte(strings.Join(facts(object), "\n")+"\n"), 0o644))
	}
	// Bodies of functions are not loaded, which is a type error here and there: controller-gen ignores these too.
	if loader.PrintErrors(roots, gopackages.TypeError) {
		os.Exit(1)
	}
}

// facts tells of a whole CRD.
func facts(object map[string]any) []string {
	delete(object, "status")
	delete(object["metadata"].(map[string]any), "creationTimestamp")
	var out []string
	for _, version := range object["spec"].(map[string]any)["versions"].([]any) {
		version := version.(map[string]any)
		root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		delete(version, "schema")
		out = append(out, schema(version["name"].(string)+" ", root)...)
	}
	out = append(out, fields("crd ", object)...)
	slices.Sort(out)
	return out
}

// fields tells of all that is outside of the schema: each scalar and each empty object by its path.
func fields(path string, value any) []string {
	var out []string
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return []string{path + " {}"}
		}
		for key := range value {
			if key != "description" {
				out = append(out, fields(path+"."+key, value[key])...)
			}
		}
	case []any:
		for i := range value {
			out = append(out, fields(fmt.Sprintf("%s[%d]", path, i), value[i])...)
		}
	default:
		out = append(out, path+" "+compact(value))
	}
	return out
}

// schema tells of a schema and of those in it: `.name` is a property, `[]` the items of a list, `{}` the values of a map.
func schema(path string, node map[string]any) []string {
	var out []string
	tell := func(key string, value any) { out = append(out, path+" "+key+" "+compact(value)) }
	for _, key := range slices.Sorted(maps.Keys(node)) {
		value := node[key]
		switch key {
		case "description":
		case "properties":
			for name, property := range value.(map[string]any) {
				out = append(out, schema(path+"."+name, property.(map[string]any))...)
			}
		case "items":
			out = append(out, schema(path+"[]", value.(map[string]any))...)
		case "additionalProperties":
			if values, ok := value.(map[string]any); ok {
				out = append(out, schema(path+"{}", values)...)
			} else {
				tell(key, value)
			}
		case "required", "enum":
			for _, one := range value.([]any) {
				tell(key, one)
			}
		case "x-kubernetes-validations":
			for _, one := range value.([]any) {
				delete(one.(map[string]any), "message")
				tell(key, one)
			}
		default:
			tell(key, value)
		}
	}
	return out
}

// compact is JSON with sorted keys, in one line.
func compact(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return strings.TrimSpace(out.String())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
