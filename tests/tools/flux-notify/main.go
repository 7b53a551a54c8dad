// Command flux-notify records the requests that notification-controller's notifiers send for events: one line of JSON a case.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/notification-controller/internal/notifier"
	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// host stands for the test server in recorded addresses.
const host = "http://notify.test"

type provider struct {
	Type         string            `json:"type"`
	Address      string            `json:"address"`
	Channel      string            `json:"channel,omitempty"`
	Username     string            `json:"username,omitempty"`
	Password     string            `json:"password,omitempty"`
	Token        string            `json:"token,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	CommitStatus string            `json:"commitStatus,omitempty"`
	// Statuses is what the server answers to requests with GET.
	Statuses string `json:"statuses,omitempty"`
}

type request struct {
	Method  string            `json:"method"`
	Target  string            `json:"target"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

type row struct {
	Provider provider      `json:"provider"`
	Event    eventv1.Event `json:"event"`
	Requests []request     `json:"requests,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// server records requests.
type server struct {
	mu       sync.Mutex
	statuses string
	seen     []request
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	headers := map[string]string{}
	for _, name := range []string{"Authorization", "Content-Type", "Gotk-Component", "Private-Token", "X-Custom", "X-Signature"} {
		if value := r.Header.Get(name); value != "" && (name != "Content-Type" || len(body) > 0) {
			headers[strings.ToLower(name)] = value
		}
	}
	s.seen = append(s.seen, request{r.Method, r.RequestURI, headers, string(body)})
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		answer := s.statuses
		if answer == "" {
			answer = "[]"
		}
		_, _ = io.WriteString(w, answer)
		return
	}
	_, _ = io.WriteString(w, "{}")
}

func event(kind, severity, reason, message string, metadata map[string]string) eventv1.Event {
	version := "helm.toolkit.fluxcd.io/v2"
	controller := "helm-controller"
	if kind != "HelmRelease" {
		version, controller = "source.toolkit.fluxcd.io/v1", "source-controller"
	}
	return eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: version, Kind: kind, Namespace: "apps", Name: "podinfo", UID: "0a1b2c3d-0000-4000-8000-000000000000",
			ResourceVersion: "42",
		},
		Severity:            severity,
		Timestamp:           metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Message:             message,
		Reason:              reason,
		Metadata:            metadata,
		ReportingController: controller,
		ReportingInstance:   "helm-controller-0",
	}
}

const commit = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738"

func events() []eventv1.Event {
	long := "Helm install failed for release apps/podinfo with chart podinfo@6.0.0: <b>\"x\" & 'y'</b> \u2028 é\nline two\t."
	return []eventv1.Event{
		event("HelmRelease", "info", "InstallSucceeded", "Helm install succeeded", map[string]string{"revision": "6.0.0", "app-version": "6.0.0"}),
		event("HelmRelease", "error", "InstallFailed", long, map[string]string{"summary": "prod", "revision": "6.0.0"}),
		event("HelmRelease", "info", "UpgradeSucceeded", "done", nil),
		event("HelmRelease", "error", "HTTPError2Things", "commit", map[string]string{"commit": commit, "revision": "6.0.0"}),
		event("GitRepository", "info", "NewArtifact", "stored artifact", map[string]string{"revision": "main@sha1:" + commit}),
		event("GitRepository", "info", "NewArtifact", "old revision", map[string]string{"originRevision": "main/" + commit, "revision": "x"}),
		event("GitRepository", "info", "Progressing", "working", map[string]string{"revision": "main@sha1:" + commit}),
	}
}

func providers() []provider {
	repo := "/org/repo.git"
	github := `[{"context":"helmrelease/podinfo/0a1b2c3d","state":"failure","description":"http error 2 things"}]`
	gitlab := `[{"name":"helmrelease/podinfo/0a1b2c3d","sha":"` + commit + `","status":"failed","description":"http error 2 things"}]`
	status := "helmrelease/podinfo/0a1b2c3d"
	return []provider{
		{Type: "generic", Address: host + "/hook?a=b"},
		{Type: "generic", Address: host + "/hook", Headers: map[string]string{"X-Custom": "1", "Authorization": "Bearer t"}},
		{Type: "generic-hmac", Address: host + "/hook", Token: "secret-key"},
		{Type: "generic-hmac", Address: host + "/hook"},
		{Type: "slack", Address: host + "/services/a", Channel: "ops"},
		{Type: "slack", Address: host + "/services/a", Username: "bot", Token: "xoxb-1"},
		{Type: "discord", Address: host + "/api/webhooks/1", Channel: "ops"},
		{Type: "discord", Address: host + "/api/webhooks/1/slack", Username: "bot"},
		{Type: "msteams", Address: host + "/teams"},
		{Type: "alertmanager", Address: host + "/api/v2/alerts/"},
		{Type: "alertmanager", Address: host + "/api/v2/alerts/", Token: "t-1"},
		{Type: "alertmanager", Address: host + "/api/v2/alerts/", Username: "u", Password: "p"},
		{Type: "github", Address: host + repo, Token: "t-1", CommitStatus: status},
		{Type: "github", Address: host + repo, Password: "p-1", CommitStatus: status, Statuses: github},
		{Type: "gitlab", Address: host + "/group/sub/repo.git", Token: "t-1", CommitStatus: status},
		{Type: "gitlab", Address: host + repo, Token: "t-1", CommitStatus: status, Statuses: gitlab},
		{Type: "gitlab", Address: host + repo, CommitStatus: status},
		{Type: "github", Address: host + "/only", Token: "t-1", CommitStatus: status},
	}
}

// sorted orders what the notifier takes out of a map, so that each run records the same.
func sorted(kind, body string) string {
	var payload notifier.SlackPayload
	if kind != "slack" && kind != "discord" || json.Unmarshal([]byte(body), &payload) != nil {
		return body
	}
	for _, a := range payload.Attachments {
		slices.SortFunc(a.Fields, func(x, y notifier.SlackField) int { return strings.Compare(x.Title, y.Title) })
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return body
	}
	return string(text)
}

func record(p provider, e eventv1.Event) row {
	s := &server{statuses: p.Statuses}
	http := httptest.NewServer(s)
	defer http.Close()
	ctx := context.Background()
	result := row{Provider: p, Event: *e.DeepCopy()}
	sender, err := notifier.NewFactory(ctx,
		notifier.WithURL(strings.Replace(p.Address, host, http.URL, 1)),
		notifier.WithChannel(p.Channel),
		notifier.WithUsername(p.Username),
		notifier.WithPassword(p.Password),
		notifier.WithToken(p.Token),
		notifier.WithHeaders(p.Headers),
		notifier.WithCommitStatus(p.CommitStatus),
	).Notifier(p.Type)
	if err == nil {
		err = sender.Post(ctx, *e.DeepCopy())
	}
	if err != nil {
		result.Error = strings.ReplaceAll(err.Error(), http.URL, host)
	}
	for _, r := range s.seen {
		r.Body = sorted(p.Type, strings.ReplaceAll(r.Body, http.URL, host))
		result.Requests = append(result.Requests, r)
	}
	return result
}

func main() {
	out := json.NewEncoder(os.Stdout)
	for _, p := range providers() {
		for _, e := range events() {
			if err := out.Encode(record(p, e)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
}
