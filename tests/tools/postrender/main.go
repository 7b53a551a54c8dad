// Records what kustomize and Helm answer to the cases of fixtures/post-render, or of the folders that it is given.
//
// A case is a folder. input.yaml (a stream of manifests) or templates/ (the templates of a chart) go in; renderers.yaml says
// what changes them. Out come expected.yaml, and for a chart expected.hooks.yaml, or expected.err.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube/fake"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

type settings struct {
	PostRenderers []struct {
		Kustomize struct {
			Patches []types.Patch `json:"patches"`
			Images  []types.Image `json:"images"`
		} `json:"kustomize"`
	} `json:"postRenderers"`
	CommonMetadata *struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"commonMetadata"`
	OriginLabels map[string]string         `json:"originLabels"`
	Strategy     action.PostRenderStrategy `json:"strategy"`
}

// Run does to a stream what the settings say, in helm-controller's order. A panic is an error.
func (s settings) Run(in *bytes.Buffer) (out *bytes.Buffer, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			out, err = nil, fmt.Errorf("%v", reason)
		}
	}()
	text := in.Bytes()
	for _, r := range s.PostRenderers {
		out, err := kustomize(text, types.Kustomization{Patches: r.Kustomize.Patches, Images: r.Kustomize.Images})
		if err != nil {
			return nil, err
		}
		text = out
	}
	if m := s.CommonMetadata; m != nil && (m.Labels != nil || m.Annotations != nil) {
		out, err := metadata(text, m.Labels, m.Annotations)
		if err != nil {
			return nil, err
		}
		text = out
	}
	if s.OriginLabels != nil {
		out, err := metadata(text, s.OriginLabels, nil)
		if err != nil {
			return nil, err
		}
		text = out
	}
	return bytes.NewBuffer(text), nil
}

func kustomize(text []byte, k types.Kustomization) ([]byte, error) {
	k.TypeMeta = types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}
	k.Resources = []string{"helm-output.yaml"}
	file, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	for name, content := range map[string][]byte{"helm-output.yaml": text, "kustomization.yaml": file} {
		if err := files.WriteFile(name, content); err != nil {
			return nil, err
		}
	}
	options := &krusty.Options{LoadRestrictions: types.LoadRestrictionsNone, PluginConfig: types.DisabledPluginConfig()}
	built, err := krusty.MakeKustomizer(options).Run(files, ".")
	if err != nil {
		return nil, err
	}
	return built.AsYaml()
}

func metadata(text []byte, labels, annotations map[string]string) ([]byte, error) {
	objects, err := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes(text)
	if err != nil {
		return nil, err
	}
	field := func(name string) []types.FieldSpec {
		return []types.FieldSpec{{Path: "metadata/" + name, CreateIfNotPresent: true}}
	}
	if labels != nil {
		plugin := builtins.LabelTransformerPlugin{Labels: labels, FieldSpecs: field("labels")}
		if err := plugin.Transform(objects); err != nil {
			return nil, err
		}
	}
	if annotations != nil {
		plugin := builtins.AnnotationsTransformerPlugin{Annotations: annotations, FieldSpecs: field("annotations")}
		if err := plugin.Transform(objects); err != nil {
			return nil, err
		}
	}
	return objects.AsYaml()
}

// install renders the templates as a chart and post-renders them.
func install(dir string, s settings) (string, string, error) {
	ch := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "c", Version: "0.1.0"}}
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	if err != nil {
		return "", "", err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		ch.Templates = append(ch.Templates, &common.File{Name: "templates/" + filepath.Base(file), Data: data})
	}
	config := action.NewConfiguration()
	config.Releases = storage.Init(driver.NewMemory())
	config.KubeClient = &fake.PrintingKubeClient{Out: io.Discard}
	config.Capabilities = common.DefaultCapabilities
	in := action.NewInstall(config)
	in.ReleaseName, in.Namespace, in.DryRunStrategy = "r", "ns", action.DryRunClient
	in.PostRenderer, in.PostRenderStrategy = s, s.Strategy
	made, err := in.Run(ch, map[string]any{})
	if err != nil {
		return "", "", err
	}
	rel := made.(*release.Release)
	var hooks strings.Builder
	for _, h := range rel.Hooks {
		fmt.Fprintf(&hooks, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
	}
	return rel.Manifest, hooks.String(), nil
}

func record(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "renderers.yaml"))
	if err != nil {
		return err
	}
	var s settings
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	answers := map[string]string{}
	var failure error
	if input, err := os.ReadFile(filepath.Join(dir, "input.yaml")); err == nil {
		var out *bytes.Buffer
		if out, failure = s.Run(bytes.NewBuffer(input)); failure == nil {
			answers["expected.yaml"] = out.String()
		}
	} else {
		answers["expected.yaml"], answers["expected.hooks.yaml"], failure = install(dir, s)
	}
	if failure != nil {
		answers = map[string]string{"expected.err": failure.Error() + "\n"}
	}
	for _, name := range []string{"expected.yaml", "expected.hooks.yaml", "expected.err"} {
		path := filepath.Join(dir, name)
		if answer, ok := answers[name]; ok {
			err = os.WriteFile(path, []byte(answer), 0o644)
		} else if err = os.Remove(path); os.IsNotExist(err) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if len(os.Args) == 3 && os.Args[1] == "tables" {
		if err := tables(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dirs := os.Args[1:]
	if len(dirs) == 1 {
		below, err := filepath.Glob(filepath.Join(dirs[0], "*", "renderers.yaml"))
		if err == nil && len(below) > 0 {
			dirs = nil
			for _, file := range below {
				dirs = append(dirs, filepath.Dir(file))
			}
		}
	}
	for _, dir := range dirs {
		if err := record(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
