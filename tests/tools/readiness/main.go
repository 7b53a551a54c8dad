// Records how ready objects are called by kstatus, which Helm 4 waits by, and by Helm's own rules.
//
//	go run . FIXTURES
//
// reads FIXTURES/readiness/objects.json and writes answers.json beside it, with the objects in it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// row is an object, how many seconds ago it was made, and what else there is: Pods, ReplicaSets.
type row struct {
	About  string           `json:"about"`
	Age    int              `json:"age,omitempty"`
	Object map[string]any   `json:"object"`
	Others []map[string]any `json:"others,omitempty"`
	// Status and Message are kstatus's, which Helm 4 waits by; Legacy is what Helm's own rules say, which `--wait=legacy` has.
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Legacy  string `json:"legacy,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FIXTURES")
		os.Exit(2)
	}
	if err := record(filepath.Join(os.Args[1], "readiness")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "objects.json"))
	if err != nil {
		return err
	}
	var rows []row
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	for i := range rows {
		if err := answer(&rows[i]); err != nil {
			return fmt.Errorf("%s: %w", rows[i].About, err)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(rows); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "answers.json"), out.Bytes(), 0o644)
}

// answer fills in what both say of a row.
func answer(r *row) error {
	text, err := json.Marshal(r.Object)
	if err != nil {
		return err
	}
	// Integers are integers there, as in objects from a server.
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(text); err != nil {
		return err
	}
	live := object.Object
	if r.Age > 0 {
		made := time.Now().Add(-time.Duration(r.Age) * time.Second)
		live["metadata"].(map[string]any)["creationTimestamp"] = made.UTC().Format(time.RFC3339)
	}
	if result, err := status.Compute(&object); err != nil {
		r.Status, r.Message = "error", err.Error()
	} else {
		r.Status, r.Message = string(result.Status), result.Message
	}
	r.Legacy, err = legacy(live, r.Others)
	return err
}

// legacy asks Helm's own rules, before a cluster that has the object and the others.
func legacy(object map[string]any, others []map[string]any) (string, error) {
	var all []runtime.Object
	for _, one := range append(others[:len(others):len(others)], object) {
		kind := (&unstructured.Unstructured{Object: one}).GroupVersionKind()
		typed, err := scheme.Scheme.New(kind)
		// The stand-in for a cluster has built-in kinds only.
		if err != nil || kind.Kind == "CustomResourceDefinition" {
			return "none", nil
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one, typed); err != nil {
			return "", err
		}
		all = append(all, typed)
	}
	checker := kube.NewReadyChecker(fake.NewClientset(all...), kube.PausedAsReady(true), kube.CheckJobs(true))
	live := &unstructured.Unstructured{Object: object}
	info := &resource.Info{Namespace: live.GetNamespace(), Name: live.GetName(), Object: all[len(all)-1]}
	ready, err := checker.IsReady(context.Background(), info)
	switch {
	case err != nil:
		return "failed", nil
	case ready:
		return "ready", nil
	default:
		return "waiting", nil
	}
}
