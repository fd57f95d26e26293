package admin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
	"github.com/headgate/headgate/internal/problem"
)

// apiPrefix is the beginning of the paths of the JSON API.
const apiPrefix = "/admin/v1/"

// The bounds of a request.
const (
	maxBodyBytes   = 1 << 20
	maxReasonBytes = 256
	apiTimeout     = 20 * time.Second // of all store operations of one request
)

// API has what the JSON API shows and changes. All fields are required.
type API struct {
	Engine    *engine.Engine
	Overrides OverrideStore
	Audit     *audit.Log
	// Status returns the state of the instance and of its store. The field Caller is set
	// afterwards.
	Status   func(ctx context.Context) *Status
	Policies func() *Policies
	Config   func() (*Config, error)
	History  func() *History
	// Hash returns the hash that represents a key in logs. ShowKeys is whether the API
	// and the audit show keys instead.
	Hash     func(policy, key string) string
	ShowKeys bool
	Admitted func() []activity.KeyCount
	Denied   func() []activity.KeyCount
	Denials  func(n int, policy *string) (last []activity.Denial, omitted uint64)
	Timeline *activity.Timeline
}

// OverrideStore lists and changes the overrides in the store; see [overrides.Live].
type OverrideStore interface {
	List() overrides.Snapshot
	Set(ctx context.Context, entries []overrides.Entry, by overrides.Change) ([]overrides.Entry, error)
	Remove(ctx context.Context, ids []overrides.ID, by overrides.Change) ([]overrides.Entry, error)
}

// call is one request to the JSON API.
type call struct {
	*API
	ctx    context.Context
	client access.Client
	query  url.Values
	body   []byte
}

// failure is the reason why a request has no result.
type failure struct {
	status int
	detail string // whole sentence, without a key
	field  string
	kind   string // kind of an error about a hold; may be empty
}

// Error returns the detail.
func (f *failure) Error() string { return f.detail }

func badRequest(field, format string, args ...any) error {
	return &failure{status: http.StatusBadRequest, detail: fmt.Sprintf(format, args...), field: field}
}

//go:embed openapi.json
var openAPIText []byte

func (c *call) openAPI() (any, error) { return json.RawMessage(openAPIText), nil }

// serveAPI serves a request to the JSON API, after the checks of [Handler.ServeHTTP] for
// listeners without tokens.
func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.path == r.URL.Path })
	if i < 0 {
		if _, ok := h.gate.Authorize(w, r, access.Read); ok {
			writeFailure(w, &failure{status: http.StatusNotFound, detail: "the path is unknown; GET /admin/v1/openapi.json lists all paths"})
		}
		return
	}
	o := &operations[i]
	client, ok := h.gate.Authorize(w, r, o.scope)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), apiTimeout)
	defer cancel()
	c := &call{API: h.opts.API, ctx: ctx, client: client}
	result, err := c.execute(o, r)
	if err == nil {
		writeResult(w, result)
		return
	}
	if errors.Is(err, errMethod) {
		w.Header().Set("Allow", allowed(o.method))
		err = &failure{status: http.StatusMethodNotAllowed, detail: "the method is not allowed; must be " + o.method}
	}
	writeFailure(w, failureOf(err))
}

var errMethod = errors.New("admin: method not allowed")

func allowed(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

// execute reads a request and runs its operation.
func (c *call) execute(o *operation, r *http.Request) (any, error) {
	if r.Method != o.method && (r.Method != http.MethodHead || o.method != http.MethodGet) {
		return nil, errMethod
	}
	var err error
	if c.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, badRequest("", "the query is malformed; must be name=value pairs")
	}
	for name, values := range c.query {
		if !slices.Contains(o.params, name) {
			return nil, badRequest("", "%s", unknown("query parameter", name, o.params))
		}
		if len(values) > 1 {
			return nil, badRequest(name, "the query parameter %s must not be repeated", name)
		}
	}
	if o.method == http.MethodPost {
		if err := c.read(r); err != nil {
			return nil, err
		}
	}
	return o.run(c)
}

// read reads the body of a request.
func (c *call) read(r *http.Request) (err error) {
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return &failure{status: http.StatusUnsupportedMediaType, detail: "the Content-Type must be application/json"}
	}
	c.body, err = io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	switch {
	case len(c.body) > maxBodyBytes:
		return &failure{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body must have at most %d bytes", maxBodyBytes)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badRequest("", "the body was not received in time")
	case err != nil:
		return badRequest("", "the body could not be read")
	}
	return nil
}

// unknown returns the message about a name that is not known.
func unknown(what, name string, known []string) string {
	message := fmt.Sprintf("the request has an unknown %s %.40q", what, name)
	if meant := suggest.Nearest(name, known); meant != "" {
		return message + fmt.Sprintf("; did you mean %q?", meant)
	}
	if len(known) == 0 {
		return message + "; there are none"
	}
	return message + "; must be " + strings.Join(known, ", ")
}

// number returns the query parameter name, a number from 1 to most.
func (c *call) number(name string, otherwise, most int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest(name, "the query parameter %s is %.40q; must be 1 to %d", name, text, most)
	}
	return n, nil
}

// policyParameter returns the query parameter policy, or nil if there is none.
func (c *call) policyParameter() *string {
	if !c.query.Has("policy") {
		return nil
	}
	name := c.query.Get("policy")
	return &name
}

// failureOf converts an error of an operation.
func failureOf(err error) *failure {
	f := (*failure)(nil)
	if errors.As(err, &f) {
		return f
	}
	if entry := (*overrides.EntryError)(nil); errors.As(err, &entry) {
		field := fmt.Sprintf("overrides[%d].%s", entry.Index, entry.Field)
		return &failure{status: http.StatusBadRequest, detail: fmt.Sprintf("field %q: %s", field, engine.Reason(entry.Err)), field: field}
	}
	switch {
	case errors.Is(err, overrides.ErrTooMany), errors.Is(err, overrides.ErrUnsupported):
		return &failure{status: http.StatusBadRequest, detail: engine.Reason(err)}
	case errors.Is(err, headgate.ErrDocumentConflict):
		return &failure{status: http.StatusConflict, detail: "other requests changed the overrides at the same time; repeat the request"}
	}
	kind, field := engine.ErrorKindOf(err), ""
	if check := (*engine.CheckError)(nil); errors.As(err, &check) {
		err, field = check.Err, check.Field
	}
	return &failure{status: answerfields.StatusOf(kind), detail: answerfields.Sentence(engine.Reason(err)), field: field, kind: kind.HoldError()}
}

func writeFailure(w http.ResponseWriter, f *failure) {
	kind := problem.Plain
	if f.status == http.StatusServiceUnavailable {
		kind = problem.ReducedCapacity
		w.Header().Set("Retry-After", "1")
	}
	problem.Write(w, problem.Problem{Type: kind, Status: f.status, Detail: f.detail, Field: f.field, Error: f.kind})
}

func writeResult(w http.ResponseWriter, result any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		writeFailure(w, &failure{status: http.StatusInternalServerError, detail: "the response could not be encoded"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text.Bytes()) // fails only if the client has disconnected
}
