package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) logout() *cobra.Command {
	c := &cobra.Command{
		Use:   "logout",
		Short: "End your login",
		Long: `End the login that ` + "`muster login`" + ` began: its token is revoked, and its key is taken out of the ssh-agent or its file removed.
Sessions that the key opened end within seconds.`,
		Example: `  muster logout`,
		Args:    cobra.NoArgs,
	}
	return a.verb(c, func(ctx context.Context, _ []string) error {
		controller, _, err := a.find()
		if err != nil {
			return err
		}
		l, err := readLogin(controller.base)
		if errors.Is(err, fs.ErrNotExist) {
			return &problemError{Problem: apiv1.Problem{Code: "not-found",
				Detail: fmt.Sprintf("you are not logged in at %s", controller.base)}}
		}
		if err != nil {
			return err
		}
		if err := a.endLogin(ctx, controller, l); err != nil {
			return fmt.Errorf("this host has forgotten the login, but it is good elsewhere until %s: %w", spec.When(l.ExpiresAt),
				err)
		}
		a.say("%s is logged out", l.Person)
		return nil
	})
}

// endLogin forgets a login here, whatever happens, and has its token revoked.
func (a *app) endLogin(ctx context.Context, c *client, l savedLogin) error {
	with := *c
	with.token = l.Token
	_, _, err := apiv1.DeleteToken.Call(ctx, &with, apiv1.DeleteTokenInput{Token: l.ID})
	if told, is := errors.AsType[*problemError](err); is && told.Status == http.StatusUnauthorized {
		err = nil // it has ended already
	}
	return errors.Join(err, l.forget(c.base))
}
