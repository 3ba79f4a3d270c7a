package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/files"
	"muster/internal/spec"
)

func (a *app) login() *cobra.Command {
	c := &cobra.Command{
		Use:   "login",
		Short: "Log in with your site's account",
		Long: `Log in at the OpenID Connect provider of your site. You get a code to type into a browser, on any host; with
--browser, a browser on this host does it alone. The login lasts 12 hours unless the site says otherwise, and ends everywhere
within seconds by ` + "`muster logout`" + `: a token, which all other commands find, and a key with a
certificate for the site's gateway. The key goes into the running ssh-agent, which drops it in time, or with --key-file
into a file. MUSTER_URL says where the controller is.`,
		Example: `  MUSTER_URL=https://muster.example.org muster login
  muster login --browser
  muster login --key-file ~/.ssh/muster`,
		Args: cobra.NoArgs,
	}
	browser := c.Flags().Bool("browser", false, "use a browser on this host instead of a code")
	keyFile := c.Flags().String("key-file", "",
		"write the key to this `FILE` and the certificate beside it, instead of giving them to the ssh-agent")
	_ = c.MarkFlagFilename("key-file")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		controller, _, err := a.find()
		if err != nil {
			return err
		}
		before, err := readLogin(controller.base)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if *keyFile != "" {
			if *keyFile, err = filepath.Abs(*keyFile); err != nil {
				return err
			}
			if err := freeForKey(*keyFile, before); err != nil {
				return err
			}
		}
		key, err := newLoginKey()
		if err != nil {
			return err
		}
		made, err := a.logIn(ctx, controller, *browser, key, *keyFile != "" || os.Getenv(envAgent) != "")
		if err != nil {
			return err
		}
		if before.ID != "" { // one login at a time: the new one takes the old one's place
			_ = a.endLogin(ctx, controller, before)
		}
		l := savedLogin{Controller: controller.base.String(), ID: made.ID, Token: made.Token, Person: made.Person,
			ExpiresAt: made.ExpiresAt}
		where := a.placeKey(ctx, &l, key, made, *keyFile)
		if err := l.save(controller.base); err != nil {
			return err
		}
		shown := must(json.Marshal(map[string]any{"person": made.Person, "new": made.New, "id": made.ID,
			"expires_at": made.ExpiresAt, "controller": l.Controller, "key_file": l.KeyFile}))
		return output.print(a.out, shown, func() { a.tellLogin(made, where) })
	})
}

// logIn leads one flow to its end and has the controller take its result.
func (a *app) logIn(ctx context.Context, c *client, browser bool, key loginKey, certified bool) (made apiv1.LoggedIn, err error) {
	ways, _, err := apiv1.GetLogin.Call(ctx, c, apiv1.Nothing{})
	if err != nil {
		return made, err
	}
	limited, cancel := context.WithTimeout(ctx, loginPatience)
	defer cancel()
	flow := a.byDevice
	if browser {
		flow = a.byBrowser
	}
	p, err := flow(limited, ways)
	if err != nil {
		return made, err
	}
	if certified {
		p.PublicKey = key.line
	}
	if p.Name, err = os.Hostname(); err != nil {
		p.Name = ""
	}
	made, _, err = apiv1.LogIn.Call(ctx, c, apiv1.LogInInput{Body: p})
	return made, err
}

// placeKey puts the key where it belongs and says in words where that is.
func (a *app) placeKey(ctx context.Context, l *savedLogin, key loginKey, made apiv1.LoggedIn, file string) string {
	comment := fmt.Sprintf("%s at %s", made.Person, l.Controller)
	switch {
	case made.Certificate == "":
		return "no ssh-agent runs here, so there is no key for plain ssh: `muster login --key-file FILE` makes one"
	case file != "":
		if err := key.toFile(files.Write, file, made.Certificate, comment); err != nil {
			return fmt.Sprintf("there is no key for plain ssh: %v", err)
		}
		l.KeyFile = file
		return fmt.Sprintf("a key for plain ssh is in %s: ssh takes it by -i, or by IdentityFile in ~/.ssh/config", file)
	}
	if err := key.toAgent(ctx, made.Certificate, comment, time.Until(made.ExpiresAt)); err != nil {
		return fmt.Sprintf("there is no key for plain ssh: %v (`muster login --key-file FILE` needs no agent)", err)
	}
	l.Key = made.Certificate
	return "a key for plain ssh is in the ssh-agent"
}

func (a *app) tellLogin(made apiv1.LoggedIn, where string) {
	a.out.line("you are %s until %s", made.Person, spec.When(made.ExpiresAt))
	a.say("%s", where)
	if made.New {
		a.say("you are new here and in no project yet: a project's owner can add %s", made.Person)
	}
	if os.Getenv(envToken) != "" {
		a.say("%s is set and takes precedence: unset it to use the login", envToken)
	}
}
