// A batch program on the library itself: the hooks of fixtures/hooks/batch/program.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deckhouse/module-sdk/pkg"
	"github.com/deckhouse/module-sdk/pkg/app"
	objectpatch "github.com/deckhouse/module-sdk/pkg/object-patch"
	"github.com/deckhouse/module-sdk/pkg/registry"
	"github.com/deckhouse/module-sdk/pkg/settingscheck"
)

func namespace() string {
	if name := os.Getenv("BATCH_NAMESPACE"); name != "" {
		return name
	}
	return "default"
}

// section is that of the module in the values; its name has no dash.
func section(key string) string {
	return os.Getenv("MODULE_NAME") + "." + key
}

// note writes what tests read: beside the operator's directory of temporary files.
func note(text string) {
	path := filepath.Join(filepath.Dir(os.Getenv("TMPDIR")), "notes")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, _ = file.WriteString(text + "\n")
		_ = file.Close()
	}
}

var _ = registry.RegisterFunc(&pkg.HookConfig{OnStartup: &pkg.OrderedConfig{Order: 1}},
	func(_ context.Context, input *pkg.HookInput) error {
		input.Values.Set(section("started"), os.Getenv("MODULE_NAME"))
		return nil
	})

var _ = registry.RegisterFunc(&pkg.HookConfig{
	Kubernetes: []pkg.KubernetesConfig{{
		Name: "watched", APIVersion: "v1", Kind: "ConfigMap",
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"batch": "watched"}},
		NamespaceSelector: &pkg.NamespaceSelector{NameSelector: &pkg.NameSelector{MatchNames: []string{namespace()}}},
		JqFilter:          ".data.size | tonumber",
	}},
}, func(_ context.Context, input *pkg.HookInput) error {
	sizes, err := objectpatch.UnmarshalToStruct[int](input.Snapshots, "watched")
	if err != nil {
		return err
	}
	sum := 0
	for _, size := range sizes {
		sum += size
	}
	input.Values.Set(section("size"), sum)
	return nil
})

var _ = registry.RegisterFunc(&pkg.HookConfig{OnBeforeHelm: &pkg.OrderedConfig{Order: 10}},
	func(_ context.Context, input *pkg.HookInput) error {
		zone := input.Values.Get(section("zone")).String()
		if zone == "nowhere" {
			return errors.New("no such zone")
		}
		input.Values.Set(section("before"), zone)
		return nil
	})

var _ = registry.RegisterFunc(&pkg.HookConfig{
	Queue:    "/ticks",
	Schedule: []pkg.ScheduleConfig{{Name: "tick", Crontab: "* * * * * *"}},
}, func(_ context.Context, input *pkg.HookInput) error {
	input.MetricsCollector.Add("batch_ticks_total", 1, nil)
	return nil
})

func ready(_ context.Context, input *pkg.HookInput) error {
	if waits := input.Values.Get(section("waits")).String(); waits != "" {
		return errors.New("waiting for " + waits)
	}
	return nil
}

func check(_ context.Context, input settingscheck.Input) settingscheck.Result {
	switch limit := input.Settings.Get("limit").Int(); {
	case limit > 9:
		return settingscheck.Reject("limit must be at most 9")
	case limit == 8:
		return settingscheck.Allow("limit 8 is deprecated")
	default:
		return settingscheck.Allow()
	}
}

func main() {
	if len(os.Args) == 3 && os.Args[2] == "config" && os.Getenv("TMPDIR") != "" {
		note("asked")
	}
	interval, err := strconv.ParseUint(os.Getenv("BATCH_PROBE_SECONDS"), 10, 8)
	if err != nil {
		interval = 1
	}
	app.Run(
		app.WithReadiness(&app.ReadinessConfig{IntervalInSeconds: uint8(interval), ProbeFunc: ready}),
		app.WithSettingsCheck(check),
	)
}
