package api

import (
	"context"
	"fmt"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

func (a *API) getHooks(ctx context.Context, in *apiv1.ProjectRef) (*output[apiv1.Hooks], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Hooks) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		hooks, err := person.HooksOf(ctx, tx, in.Project)
		*out = apiv1.Hooks(hooks)
		return err
	})
}

func (a *API) setHooks(ctx context.Context, in *apiv1.SetHooksInput) (*output[apiv1.Hooks], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Hooks) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		for name, script := range map[string]string{"prolog": in.Body.Prolog, "epilog": in.Body.Epilog} {
			if why := unfit("the "+name, script); why != "" {
				return invalid(why, "`muster projects hooks --help` shows what can be run")
			}
		}
		if err := person.SetHooks(ctx, tx, in.Project, person.Hooks(in.Body)); err != nil {
			return err
		}
		words := map[bool]string{true: "none", false: "set"}
		tx.Log(core.Event{Type: "project.requested", Project: in.Project,
			Text: fmt.Sprintf("project %s: prolog %s, epilog %s, by %s", in.Project, words[in.Body.Prolog == ""],
				words[in.Body.Epilog == ""], identityOf(ctx))})
		*out = in.Body
		return nil
	})
}

// unfit says why a script that is called what cannot be started; "" if it can.
func unfit(what, script string) string {
	switch {
	case strings.ContainsRune(script, 0):
		return what + " has a zero byte"
	case strings.HasPrefix(script, "\ufeff"):
		return what + " begins with a byte order mark, so that nobody knows how to start it: save it without one"
	case strings.Contains(script, "\r"):
		line := 1 + strings.Count(script[:strings.IndexByte(script, '\r')], "\n")
		return fmt.Sprintf("%s's line %d ends with a carriage return, as on Windows, which bash takes for a part of the "+
			"command: `sed -i 's/\\r$//' FILE` or `dos2unix FILE` takes them out", what, line)
	}
	return ""
}
