// Answers what Helm 3's own code makes of whole charts, one JSON line for each that standard input asks for: as the answerer of
// tests/tools/go does of Helm 4's.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// patience is how long one question may take.
const patience = 10 * time.Second

// question is one line of input: the files of a chart as a JSON map, in base64, and the user's values.
type question struct {
	Text   []byte         `json:"text"`
	Values map[string]any `json:"values"`
}

// reply is one line of output: what came of the question, and Helm's error if it failed.
type reply struct {
	Output []byte `json:"output"`
	Error  []byte `json:"error"`
}

func main() {
	// Warnings are not compared.
	log.SetOutput(io.Discard)
	lines, encoder := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var asked question
		if err == nil {
			err = json.Unmarshal(line, &asked)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		// A question that Helm does not finish ends the program; who asks then knows which one it was.
		watchdog := time.AfterFunc(patience, func() { os.Exit(3) })
		output, err := asked.answer()
		watchdog.Stop()
		said := reply{Output: output}
		if err != nil {
			said.Error = []byte(err.Error())
		}
		if encoder.Encode(said) != nil {
			os.Exit(1)
		}
	}
}

// answer renders the chart as `helm template --include-crds` does: the values that templates see, definitions of resources, manifests in
// order, hooks with what Helm reads of them, and notes.
func (q *question) answer() (output []byte, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	var files map[string]string
	if err := json.Unmarshal(q.Text, &files); err != nil {
		return nil, err
	}
	packed, err := pack(files)
	if err != nil {
		return nil, err
	}
	c, err := loader.LoadArchive(packed)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, q.Values); err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "probe", Namespace: "default", Revision: 1, IsInstall: true}
	capabilities := chartutil.DefaultCapabilities.Copy()
	all, err := chartutil.ToRenderValues(c, q.Values, options, capabilities)
	if err != nil {
		return nil, err
	}
	// Templates may change them.
	seen, err := json.Marshal(all["Values"])
	if err != nil {
		return nil, err
	}
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", want, capabilities.KubeVersion.String())
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
