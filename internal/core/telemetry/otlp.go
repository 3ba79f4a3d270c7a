package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// exporter writes spans as OTLP/JSON, to a receiver or to the end of a file, a line a batch. Why it is our own:
// docs/decisions/observability.md.
type exporter struct {
	send   func(context.Context, []byte) error
	close  func() error
	failed func(error)

	mu   sync.Mutex
	down bool // the last batch was lost; said once
}

const (
	tracesPath = "/v1/traces"
	sendWithin = 10 * time.Second
)

func newExporter(to string, failed func(error)) (*exporter, error) {
	if !strings.Contains(to, "://") {
		file, err := os.OpenFile(to, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		write := func(_ context.Context, text []byte) error {
			_, err := file.Write(append(text, '\n'))
			return err
		}
		return &exporter{send: write, close: file.Close, failed: failed}, nil
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fmt.Errorf("traces: give the URL of an OTLP/HTTP receiver, such as http://localhost:4318, or the path " +
			"of a file")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	headers, err := parseHeaders(os.Getenv(headersVariable))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: sendWithin}
	return &exporter{send: func(ctx context.Context, text []byte) error {
		return post(ctx, client, u.String(), headers, text)
	}, close: func() error { return nil }, failed: failed}, nil
}

// headersVariable is OpenTelemetry's own: "name=value,…", for receivers that want to know who sends.
const headersVariable = "OTEL_EXPORTER_OTLP_HEADERS"

func parseHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil { // the value may be a secret, so it is not shown
			return nil, fmt.Errorf("traces: %s: write name=value,name=value", headersVariable)
		}
		headers.Set(strings.TrimSpace(name), value)
	}
	return headers, nil
}

func post(ctx context.Context, client *http.Client, to string, headers http.Header, text []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header = headers.Clone()
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", to, response.Status)
	}
	return nil
}

// ExportSpans sends a batch. One that cannot be sent is lost: traces must never cost the controller more than that.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	text, err := json.Marshal(encode(spans))
	if err == nil {
		err = e.send(ctx, text)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && !e.down {
		e.failed(fmt.Errorf("traces are lost: %w", err))
	}
	e.down = err != nil
	return nil
}

func (e *exporter) Shutdown(context.Context) error { return e.close() }

// What follows are the messages of OTLP in their JSON form: IDs in hex, 64-bit numbers as text, enumerations as numbers.
type (
	traces struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resourceOf   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resourceOf struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID      string     `json:"traceId"`
		SpanID       string     `json:"spanId"`
		ParentSpanID string     `json:"parentSpanId,omitempty"`
		Name         string     `json:"name"`
		Kind         int        `json:"kind"`
		Start        string     `json:"startTimeUnixNano"`
		End          string     `json:"endTimeUnixNano"`
		Attributes   []keyValue `json:"attributes,omitempty"`
		Links        []link     `json:"links,omitempty"`
		Status       status     `json:"status"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
	}
)

// encode takes spans of this process, which all have one resource and one scope.
func encode(spans []sdk.ReadOnlySpan) traces {
	if len(spans) == 0 {
		return traces{}
	}
	all := scopeSpans{Scope: scope{spans[0].InstrumentationScope().Name}}
	for _, s := range spans {
		one := span{
			TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().
					String(), Name: s.Name(), Kind: int(s.SpanKind()),
			Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10),
			Attributes: keyValues(s.Attributes()),
		}
		if s.SpanKind() == trace.SpanKindUnspecified {
			one.Kind = int(trace.SpanKindInternal)
		}
		if s.Parent().IsValid() {
			one.ParentSpanID = s.Parent().SpanID().String()
		}
		for _, l := range s.Links() {
			one.Links = append(one.Links, link{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
		}
		const failed = 2 // in OTLP; the library counts otherwise
		if s.Status().Code == codes.Error {
			one.Status = status{failed, s.Status().Description}
		}
		all.Spans = append(all.Spans, one)
	}
	return traces{[]resourceSpans{{resourceOf{keyValues(spans[0].Resource().Attributes())}, []scopeSpans{all}}}}
}

func keyValues(attributes []attribute.KeyValue) []keyValue {
	var all []keyValue
	for _, a := range attributes {
		kv := keyValue{Key: string(a.Key)}
		if a.Value.Type() == attribute.INT64 {
			kv.Value.Int = strconv.FormatInt(a.Value.AsInt64(), 10)
		} else {
			text := a.Value.String()
			kv.Value.String = &text
		}
		all = append(all, kv)
	}
	return all
}
