package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/door/console"
	"muster/internal/kinds/person"
	"muster/internal/kit/limit"
	"muster/internal/spec"
)

type callerKey struct{}

// callerOf is who makes the request.
func callerOf(ctx context.Context) access.Caller {
	c, _ := ctx.Value(callerKey{}).(access.Caller)
	return c
}

// identityOf is the name of who makes the request.
func identityOf(ctx context.Context) string { return callerOf(ctx).Name }

// authorise lets only the bearers of a known token through, to what they may do, and writes down what they did. Whether
// they may do it to what a project owns is asked where that is looked up: see permit.
func (a *API) authorise(api huma.API, handlers []handler) func(huma.Context, func(huma.Context)) {
	table := map[string]apiv1.Endpoint{}
	for _, h := range handlers {
		table[h.operation.ID] = h.operation
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		refuse := func(p *apiv1.Problem) {
			if p.Status == http.StatusUnauthorized {
				ctx.SetHeader("WWW-Authenticate", challenge)
			}
			_ = huma.WriteErr(api, ctx, p.Status, p.Detail, p)
		}
		operation := table[ctx.Operation().OperationID]
		if operation.Open {
			a.openly(ctx, refuse, next)
			return
		}
		caller, p := a.caller(ctx)
		if p != nil {
			refuse(p)
			return
		}
		limit.Known(ctx.Context())
		if !limit.IsReserved(ctx.Context()) {
			ctx = huma.WithContext(ctx, core.For(ctx.Context(), core.OfPerson(caller.Name)))
		}
		share := a.Shares.of(ctx)
		leave, over := share.Enter(caller.Name, limit.IsReserved(ctx.Context()))
		if over != nil {
			refuse(overLimit(ctx, over))
			return
		}
		defer leave()
		if share == &a.Shares.sums {
			ctx = huma.WithContext(ctx, core.Apart(ctx.Context()))
		}
		asked := askedOf(ctx.Context())
		asked.identity, asked.action, asked.summary = caller.Name, access.Action(operation.Action), operation.Summary
		rule := access.Rules()[asked.action]
		leaves := operation.ID == apiv1.SignOut.ID // that is always possible
		if (rule.Changes || signs(operation.ID)) && !leaves && !caller.Operator && !limit.IsReserved(ctx.Context()) {
			if over := a.trail.changes.More(caller.Name, time.Now()); over != nil {
				refuse(overLimit(ctx, over))
				return
			}
		}
		if p := a.settled(ctx.Context()); p != nil && !leaves {
			refuse(p)
			return
		}
		switch {
		case operation.WayIn && asked.cookie != "": // who has stolen a cookie would stay for ever
			refuse(forbidden("a browser that is signed in makes no other way in",
				"use the command line, where you have a token"))
		case len(rule.Roles) == 0 && !caller.May(asked.action, ""):
			refuse(denied(caller, asked))
		default:
			next(huma.WithValue(ctx, callerKey{}, caller))
		}
		a.audit(ctx, caller)
	}
}

// signs says whether an operation signs browsers in or out, which is no change of anything that a person has, and is written down
// each time.
func signs(operation string) bool {
	return operation == apiv1.OpenConsole.ID || operation == apiv1.SignIn.ID || operation == apiv1.SignOut.ID
}

// audit writes down what was done, or tried, once: after it, or when an answer begins that lasts.
func (a *API) audit(ctx huma.Context, caller access.Caller) {
	asked, operation := askedOf(ctx.Context()), ctx.Operation()
	if asked.audited {
		return
	}
	asked.audited = true
	e := person.Entry{
		ID: core.NewID("a"), Person: caller.Name, Token: caller.Token, Door: asked.door(), Action: operation.OperationID,
		Project: asked.project,
		Object:  asked.cluster, Outcome: fmt.Sprint(outcome(ctx)), Remote: ctx.RemoteAddr(),
		Request: telemetry.RequestOf(ctx.Context()),
	}
	for part := range strings.SplitSeq(operation.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			e.Object = ctx.Param(strings.TrimSuffix(name, "}"))
		}
	}
	if strings.HasPrefix(e.Object, tokenMark) { // somebody has named a token by itself instead of by its ID
		e.Object = "(a token)"
	}
	entries := []person.Entry{e}
	if !access.Rules()[asked.action].Changes && (caller.Name == "" || !signs(operation.OperationID)) {
		entries = a.trail.ofRead(e, time.Now())
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx.Context()), 5*time.Second) // also of clients that have gone
	defer cancel()
	if err := a.trail.write(core.For(limited, ""), a.DB, caller.Token, entries...); err != nil {
		a.Log.ErrorContext(limited, "cannot write to the audit log", "identity", caller.Name, "operation", e.Action, "error", err)
	}
}

// outcome is the status that a request was answered with.
func outcome(ctx huma.Context) int {
	if r := askedOf(ctx.Context()); r.status != 0 {
		return r.status
	}
	if status := ctx.Status(); status != 0 {
		return status
	}
	return http.StatusOK
}

// challenge tells a client without a token how to come.
const challenge = `Bearer realm="muster"`

// caller is who asks: the bearer of a token, or a browser that is signed in to the console.
func (a *API) caller(ctx huma.Context) (access.Caller, *apiv1.Problem) {
	header := ctx.Header("Authorization")
	r, _ := humago.Unwrap(ctx)
	if cookie := console.CookieOf(r); header == "" && cookie != "" {
		return a.browser(ctx.Context(), r, cookie)
	}
	return a.bearer(ctx.Context(), header)
}

// bearer is who a token in an Authorization header belongs to.
func (a *API) bearer(ctx context.Context, header string) (caller access.Caller, p *apiv1.Problem) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller, unauthorized()
	}
	caller, err := core.Look(ctx, a.DB, func(tx *core.Tx) (access.Caller, error) {
		return person.Bearer(ctx, tx, person.HashToken(token))
	})
	if err != nil {
		return caller, a.nobody(ctx, err)
	}
	return caller, nil
}

// nobody tells why it is not known who asks.
func (a *API) nobody(ctx context.Context, err error) *apiv1.Problem {
	if isNotFound(err) {
		return unauthorized()
	}
	a.Log.ErrorContext(ctx, "cannot check who asks", "error", err)
	return problem(http.StatusInternalServerError, "the database does not answer", "try again")
}

func unauthorized() *apiv1.Problem {
	return problem(http.StatusUnauthorized, "a valid token is needed",
		"`muster login` gets one; or set MUSTER_TOKEN, or run this on the controller's host as the user who started it")
}

// denied says why a caller may not do something that they know of.
func denied(c access.Caller, r *asked) *apiv1.Problem {
	what := "do this"
	if brief, _, _ := strings.Cut(r.summary, ":"); brief != "" {
		what = strings.ToLower(brief[:1]) + brief[1:]
	}
	rule, text := access.Rules()[r.action], fmt.Sprintf("%s may not %s", c.Name, what)
	hint := "it takes an operator of the site"
	switch {
	case rule.Changes && c.Scope == access.ReadOnly:
		hint = "the token is read-only"
	case rule.Wide && c.Project != "":
		hint = "the token is for project " + c.Project + " only"
	case len(rule.Roles) > 0:
		hint = "it takes a project's " + strings.Join(texts(rule.Roles), " or ") + "; `muster projects` shows what you are"
	}
	return forbidden(text, hint)
}

// permit says whether the request's action may be done in a project: ErrNotFound about what, to who may not even know of
// it. Everything that a project owns passes here before it is shown or changed.
func permit(ctx context.Context, project, what string) error {
	caller, asked := callerOf(ctx), askedOf(ctx)
	if !caller.May(access.See, project) {
		return fmt.Errorf("%s: %w", what, core.ErrNotFound)
	}
	asked.project = project
	if !caller.May(asked.action, project) {
		return denied(caller, asked)
	}
	return nil
}

// visible lists the projects whose things the caller may look at; nil means all.
func visible(ctx context.Context) []string {
	caller := callerOf(ctx)
	if caller.Everywhere() {
		return nil
	}
	return append([]string{}, caller.Projects()...)
}

// sees says whether the caller may look at what a project owns.
func sees(ctx context.Context, project string) bool { return callerOf(ctx).May(access.See, project) }

// choose is the one that a reference names, of all those of a kind.
func choose[T any](ctx context.Context, what, ref string, all []T, of func(T) (project, name string)) (found T, err error) {
	candidates := access.Choose(callerOf(ctx), ref, all, of)
	switch len(candidates) {
	case 0:
		return found, fmt.Errorf("%s %s: %w", what, ref, core.ErrNotFound)
	case 1:
		return candidates[0], nil
	}
	var names []string
	for _, one := range candidates {
		project, name := of(one)
		names = append(names, project+"/"+name)
	}
	return found, conflict(fmt.Sprintf("%s may be %s", ref, strings.Join(names, " or ")), "write the project too")
}

// usual is the project of a caller's clusters whose file names none: their only one, or the site's if it is one of theirs;
// "" if it has to be said.
func usual(c access.Caller, sites string) string {
	own := c.Projects()
	switch {
	case len(own) == 1:
		return own[0]
	case slices.Contains(own, sites) || len(own) == 0 && c.Everywhere():
		return sites
	}
	return ""
}

// home fills in the project of a cluster file that names none. It refuses projects that the caller may not make clusters in.
func (a *API) home(ctx context.Context, tx *core.Tx, c spec.Cluster) (spec.Cluster, error) {
	caller := callerOf(ctx)
	refuse := func(code, text, hint string) error {
		return &admission.Refusal{Kind: admission.Invalid,
			Diagnostics: spec.Diagnostics{{Code: code, Path: "project", Text: text, Hint: hint}}}
	}
	own := caller.Projects()
	theirs := "you are in no project: an operator or a project's owner can add you"
	if len(own) > 0 {
		theirs = "you are in " + strings.Join(own, ", ")
	}
	if c.Project == "" {
		c.Project = usual(caller, a.Admission.Catalogue.Project)
	}
	if c.Project == "" {
		return c, refuse("which-project", "it does not say whose cluster it is to be", theirs)
	}
	_, err := person.GetProject(ctx, tx, c.Project)
	if err == nil {
		err = permit(ctx, c.Project, "project "+c.Project)
	}
	if isNotFound(err) {
		err = refuse("unknown-project", fmt.Sprintf("there is no project %q", c.Project), theirs)
	}
	if err == nil {
		err = notExternal(ctx, tx, c)
	}
	return c, err
}
