package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/apiv1"
	"muster/internal/door/access"
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

// onStream binds an operation whose answer lasts: events as they happen, or, of one that answers nothing, a connection.
func onStream[In, Out any](op apiv1.Op[In, Out], answer func(context.Context, *In) (*huma.StreamResponse, error)) handler {
	register := func(a *API, api huma.API, described huma.Operation) {
		described.Responses = map[string]*huma.Response{"101": {Description: "the connection is open"}}
		if typeOf[Out]() != typeOf[apiv1.Nothing]() {
			page := api.OpenAPI().Components.Schemas.Schema(typeOf[Out](), true, "")
			described.Responses = map[string]*huma.Response{"200": {Description: "a page of events, or a stream of them",
				Content: map[string]*huma.MediaType{
					"application/json": {Schema: page},
					"text/event-stream": {Schema: &huma.Schema{Type: "string",
						Description: "id: number; event: type; data: the event as JSON"}},
				}}}
		}
		huma.Register(api, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
			out, err := answer(ctx, in)
			return out, a.tell(err, nil)
		})
	}
	return handler{op.Endpoint, register}
}

// bind registers every operation of a table with its handler. An operation without one, a handler without an operation, and
// an operation that nothing says who may do, are mistakes of the program.
func (a *API) bind(api huma.API, table []apiv1.Endpoint, handlers []handler) error {
	by := map[string]handler{}
	var wrong []error
	for _, h := range handlers {
		if _, twice := by[h.operation.ID]; twice {
			wrong = append(wrong, fmt.Errorf("operation %s has two handlers", h.operation.ID))
		}
		by[h.operation.ID] = h
	}
	for _, op := range table {
		h, bound := by[op.ID]
		delete(by, op.ID)
		if _, ruled := access.Rules()[access.Action(op.Action)]; ruled == op.Open {
			wrong = append(wrong, fmt.Errorf("operation %s has no rule who may", op.ID))
		}
		if !bound {
			wrong = append(wrong, fmt.Errorf("operation %s has no handler", op.ID))
			continue
		}
		h.register(a, api, describe(op))
	}
	for id := range by {
		wrong = append(wrong, fmt.Errorf("the handler of %s is of no operation of the table", id))
	}
	return errors.Join(wrong...)
}

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
	if op.Open {
		d.Security = []map[string][]string{}
	}
	if op.File {
		takeFile(&d)
	}
	if op.Unchanged {
		d.Responses = map[string]*huma.Response{"200": {Description: "the plan of a dry run, or nothing to change",
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Answer"}},
			}}}
	}
	return d
}
