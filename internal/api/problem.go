package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kit/duration"
	"muster/internal/spec"
)

// problem has the code that goes with its status.
func problem(status int, text, hint string) *apiv1.Problem {
	p := &apiv1.Problem{Title: http.StatusText(status), Status: status, Code: code(status), Detail: text}
	if hint != "" {
		p.Detail += " (" + hint + ")"
	}
	return p
}

func invalid(text, hint string) *apiv1.Problem {
	return problem(http.StatusUnprocessableEntity, text, hint)
}

func conflict(text, hint string) *apiv1.Problem { return problem(http.StatusConflict, text, hint) }
func notFound(text, hint string) *apiv1.Problem { return problem(http.StatusNotFound, text, hint) }

func noClass(name string) *apiv1.Problem {
	return notFound(fmt.Sprintf("there is no class %q", name), "`muster classes` lists those there are")
}

// forbidden is for who is known, and may not.
func forbidden(text, hint string) *apiv1.Problem { return problem(http.StatusForbidden, text, hint) }

// badDuration refuses a field that is not a duration, or not one between its bounds.
func badDuration(field string, err error) *apiv1.Problem {
	return invalid(field+": "+err.Error(), "")
}

func writeProblem(w http.ResponseWriter, p *apiv1.Problem) {
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// mostMistakes is how many of a body are told.
const mostMistakes = 100

// init makes huma tell its own errors (a wrong type, a missing parameter) as Problems too, and say that an array is never null.
// huma knows only this way.
func init() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := problem(status, message, "")
		for _, err := range errs {
			var own *apiv1.Problem
			if errors.As(err, &own) {
				return own
			}
			d := spec.Diagnostic{Code: spec.CodeBadValue, Text: err.Error()}
			var detail *huma.ErrorDetail
			if errors.As(err, &detail) {
				d.Path, d.Text = detail.Location, inWords(detail)
			}
			if p.Errors = append(p.Errors, d); len(p.Errors) == mostMistakes {
				break
			}
		}
		return p
	}
}

// namePattern is what most names are; a person who gives one should not have to read it.
const namePattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"

// inWords says what huma says by a pattern.
func inWords(detail *huma.ErrorDetail) string {
	if strings.HasSuffix(detail.Message, namePattern) {
		return fmt.Sprintf("%q is not a name; use small letters and digits, and hyphens between them, such as r1-n07",
			fmt.Sprint(detail.Value))
	}
	return detail.Message
}

// code is the problem code that goes with a status.
func code(status int) string {
	switch status {
	case http.StatusNotFound:
		return "not-found"
	case http.StatusConflict:
		return "conflict"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "unavailable"
	}
	if status >= 500 {
		return "internal"
	}
	return "invalid"
}

func isNotFound(err error) bool { return errors.Is(err, core.ErrNotFound) }

// refusals: kind → status and code.
var refusals = map[admission.Kind]struct {
	status int
	code   string
}{
	admission.Invalid:    {http.StatusUnprocessableEntity, "invalid"},
	admission.NoCapacity: {http.StatusConflict, "no-capacity"},
	admission.OverQuota:  {http.StatusConflict, "quota"},
	admission.OverBudget: {http.StatusConflict, "budget"},
	admission.Conflict:   {http.StatusConflict, "conflict"},
}

// tell turns an error into a Problem. doc, where there is one, says where in the file things stand. What the user can do
// nothing about is kept for the log and told without inner detail.
func (a *API) tell(err error, doc *spec.Document) error {
	var ds spec.Diagnostics
	var refusal *admission.Refusal
	var own *apiv1.Problem
	p := problem(http.StatusInternalServerError, "something went wrong in the controller", "its log says what")
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &refusal):
		kind := refusals[refusal.Kind]
		ds = refusal.Diagnostics
		if doc != nil {
			ds = doc.Locate(ds)
		}
		p = problem(kind.status, ds.Error(), "")
		p.Code = kind.code
		p.Offers = offers(refusal.Offers)
	case errors.As(err, &ds):
		p = invalid(ds.Error(), "")
	case errors.Is(err, core.ErrNotFound):
		p = notFound(err.Error(), whereToLook(err))
	case errors.Is(err, core.ErrExists), errors.Is(err, fabrics.ErrInUse):
		p = conflict(err.Error(), "")
	default:
		p.Cause = err
	}
	p.Errors = ds
	return p
}

func offers(all []admission.Offer) (told []apiv1.Offer) {
	for _, o := range all {
		offer := apiv1.Offer{Kind: string(o.Kind), Text: o.Text, Queue: o.Queue, Nodes: o.Nodes, Class: o.Class,
			Start: instant(o.Start)}
		if o.For > 0 {
			offer.For = duration.Text(o.For)
		}
		told = append(told, offer)
	}
	return told
}

// whereToLook says which command lists the things of the kind that was not found, which is the first word of the error.
func whereToLook(err error) string {
	kind, _, _ := strings.Cut(err.Error(), " ")
	verb, known := map[string]string{"cluster": "list", "machine": "machines list", "snapshot": "snapshots list",
		"network": "networks list", "key": "keys list", "project": "projects", "token": "tokens list", "person": "users list",
		"external": "clusters list", "fabric": "fabric list", "task": "tasks list NAME"}[kind]
	if !known {
		return ""
	}
	return "`muster " + verb + "` shows those there are"
}
