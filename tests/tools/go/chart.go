package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// renderChart loads a chart from the files that the text lists, and renders it as `helm template --include-crds` does: the values
// that templates see, definitions of resources, manifests in order, hooks with what Helm reads of them, and notes.
func (r *request) renderChart() ([]byte, error) {
	var files map[string]string
	if err := json.Unmarshal(r.Text, &files); err != nil {
		return nil, err
	}
	packed, err := pack(files)
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadArchive(packed)
	if err != nil {
		return nil, err
	}
	c, ok := loaded.(*chart.Chart)
	if !ok {
		return nil, errors.New("invalid chart apiVersion")
	}
	values := map[string]any{}
	if err := json.Unmarshal(r.Values, &values); err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "probe", Namespace: "default", Revision: 1, IsInstall: true}
	capabilities := common.DefaultCapabilities.Copy()
	// What a release of Helm is stamped with.
	capabilities.HelmVersion.Version = helmVersion()
	all, err := util.ToRenderValues(c, values, options, capabilities)
	if err != nil {
		return nil, err
	}
	// Templates may change them.
	seen, err := json.Marshal(all["Values"])
	if err != nil {
		return nil, err
	}
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", want, capabilities.KubeVersion.Version)
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var notes string
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			if name == path.Join(c.Name(), "templates", "NOTES.txt") {
				notes = rendered[name]
			}
			delete(rendered, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n", seen)
	for _, crd := range c.CRDObjects() {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
	}
	for _, m := range manifests {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	for _, h := range hooks {
		fmt.Fprintf(&out, "--- %q %d %q %q %s %s\n", h.Events, h.Weight, h.DeletePolicies, h.OutputLogPolicies, h.Kind, h.Name)
		fmt.Fprintf(&out, "# Source: %s\n%s\n", h.Path, h.Manifest)
	}
	fmt.Fprintf(&out, "NOTES:\n%s", notes)
	return out.Bytes(), nil
}

// pack makes an archive of files, in the order of their names.
func pack(files map[string]string) (*bytes.Buffer, error) {
	packed := new(bytes.Buffer)
	zipped, err := gzip.NewWriterLevel(packed, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: "probe/" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return packed, zipped.Close()
}

// helmVersion is the version of the library in here.
func helmVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "helm.sh/helm/v4" {
			return module.Version
		}
	}
	return ""
}
