package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
)

// handler answers one operation of the table.
type handler struct {
	operation apiv1.Endpoint
	register  func(*API, huma.API, huma.Operation)
}

// output is a good answer.
type output[T any] struct {
	Status int // 0: the operation's own
	Body   T
}

// viewed answers with what f finds.
func viewed[T any](ctx context.Context, a *API, f func(*core.Tx, *T) error) (*output[T], error) {
	return answered(ctx, a.DB.View, f)
}

// updated answers with what f has done. f may run several times, each time with an empty answer.
func updated[T any](ctx context.Context, a *API, f func(*core.Tx, *T) error) (*output[T], error) {
	return answered(ctx, a.DB.Update, f)
}

// answered is either, by how the transaction is run.
func answered[T any](ctx context.Context, run func(context.Context, func(*core.Tx) error) error,
	f func(*core.Tx, *T) error) (*output[T], error) {
	var out *output[T]
	err := run(ctx, func(tx *core.Tx) error {
		out = new(output[T])
		return f(tx, &out.Body)
	})
	return out, err
}

// on binds an operation to what answers it: an answer of its type, or an error, which becomes a Problem.
func on[In, Out any](op apiv1.Op[In, Out], answer func(context.Context, *In) (*output[Out], error)) handler {
	register := func(a *API, api huma.API, described huma.Operation) {
		if typeOf[Out]() == typeOf[apiv1.Nothing]() {
			huma.Register(api, described, func(ctx context.Context, in *In) (*struct{}, error) {
				_, err := answer(ctx, in)
				return nil, a.tell(err, nil)
			})
			return
		}
		if described.Method == http.MethodGet {
			described.Middlewares = huma.Middlewares{a.conditional}
		}
		huma.Register(api, described, func(ctx context.Context, in *In) (*output[Out], error) {
			out, err := answer(ctx, in)
			if err != nil {
				return nil, a.tell(err, nil)
			}
			if out.Status == 0 {
				out.Status = max(described.DefaultStatus, http.StatusOK)
			}
			return out, nil
		})
	}
	return handler{op.Endpoint, register}
}

// octets is a body of bytes that are no text.
func octets() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
}

// onStream binds an operation whose answer lasts: events as they happen, or, of one that answers nothing, a file or a connection.
func onStream[In, Out any](op apiv1.Op[In, Out], answer func(context.Context, *In) (*huma.StreamResponse, error)) handler {
	register := func(a *API, api huma.API, described huma.Operation) {
		described.Responses = map[string]*huma.Response{"101": {Description: "the connection is open"}}
		switch {
		case op.Bytes:
			described.Responses = map[string]*huma.Response{"200": {Description: "the file", Content: octets()},
				"206": {Description: "the part of it that was asked for", Content: octets()}}
		case typeOf[Out]() != typeOf[apiv1.Nothing]():
			page := api.OpenAPI().Components.Schemas.Schema(typeOf[Out](), true, "")
			api.OpenAPI().Components.Schemas.Schema(typeOf[apiv1.Sighting](), true, "")
			described.Responses = map[string]*huma.Response{"200": {Description: "a page of events, or a stream of them",
				Content: map[string]*huma.MediaType{
					"application/json": {Schema: page},
					"text/event-stream": {Schema: &huma.Schema{Type: "string",
						Description: "id: number; event: type; data: the event as JSON. Of type seen: data: a Sighting; no id"}},
				}}}
		}
		huma.Register(api, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
			out, err := answer(ctx, in)
			return out, a.tell(err, nil)
		})
	}
	return handler{op.Endpoint, register}
}

// bind registers every operation with its handler. An operation that has two, or no rule for who may ask for it, is a mistake of
// the program.
func (a *API) bind(api huma.API, handlers []handler) error {
	bound := map[string]bool{}
	var wrong []error
	for _, h := range handlers {
		if bound[h.operation.ID] {
			wrong = append(wrong, fmt.Errorf("operation %s has two handlers", h.operation.ID))
			continue
		}
		bound[h.operation.ID] = true
		if _, ruled := access.Rules()[access.Action(h.operation.Action)]; ruled == h.operation.Open {
			wrong = append(wrong, fmt.Errorf("operation %s has no rule who may", h.operation.ID))
		}
		described := describe(h.operation)
		h.register(a, api, described)
		if h.operation.File { // huma takes YAML for a text that it knows nothing of
			*described.RequestBody = *fileBody(h.operation.Example)
		}
	}
	return errors.Join(wrong...)
}

// usualBody is how many bytes a body may have that is no file and not an operator's. Each of its values may be a mistake, which
// takes a hundred bytes.
const usualBody = 128 << 10

// describe is an operation in the words of the OpenAPI document.
func describe(op apiv1.Endpoint) huma.Operation {
	d := huma.Operation{
		OperationID:   op.ID,
		Method:        op.Method,
		Path:          op.Path,
		Summary:       op.Summary,
		Description:   op.Description,
		Tags:          []string{op.Tag},
		DefaultStatus: op.Status,
		Errors:        op.Errors,
		MaxBodyBytes:  op.MaxBody,
	}
	if op.MaxBody == 0 && !op.File && op.Action != "run" {
		d.MaxBodyBytes = usualBody
	}
	if op.Bytes && op.Method != http.MethodGet { // its handler reads it
		d.RequestBody = &huma.RequestBody{Required: true, Content: octets()}
	}
	if op.Open {
		d.Security = []map[string][]string{}
	}
	if op.File {
		d.SkipValidateBody, d.RequestBody = true, &huma.RequestBody{} // spec does that, and says where
	} else if op.Example != "" {
		d.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
			"application/json": {Example: json.RawMessage(op.Example)},
		}}
	}
	if op.Unchanged {
		d.Responses = map[string]*huma.Response{"200": {Description: "the plan of a dry run, or nothing to change",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Answer"}},
			}}}
	}
	return d
}
