package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/door/rotation"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/duration"
	"muster/internal/kit/lists"
)

// credentialOf is the name of what a cluster's daemons know one another by, and by which word all of that kind are named; "" of
// a cluster whose daemons need none.
func (a *API) credentialOf(c cluster.Cluster) (name, kind string) {
	kind = a.Admission.Schedulers.Of(c.Spec.Scheduler()).Caps.Credential.Name
	if kind == "" {
		return "", ""
	}
	return kind + "/" + c.Project + "/" + c.Name, kind
}

const gatewayHostKey = "gateway-host-key"

func (a *API) secretsOf(ctx context.Context, tx *core.Tx) (items []apiv1.SecretView, err error) {
	generations, _, err := authority.Generations(ctx, tx)
	if err != nil {
		return nil, err
	}
	inUse := map[string]int64{}
	for _, g := range generations {
		if !g.SignsAt.IsZero() {
			inUse[g.Use] = g.Number
		}
	}
	for _, g := range generations {
		id, err := idOf(ctx, tx, g.Seed)
		if err != nil {
			return nil, err
		}
		view := apiv1.SecretView{Name: rotation.Name(identity.Use(g.Use)), ID: id, Generation: g.Number, State: apiv1.SecretInUse,
			Since: g.MadeAt, Waits: g.Waits}
		switch {
		case g.SignsAt.IsZero():
			view.State = apiv1.SecretNext
		case g.Number < inUse[g.Use]:
			view.State = apiv1.SecretFormer
		}
		items = append(items, view)
	}
	keys, err := authority.GatewayKeys(ctx, tx)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		id, err := idOf(ctx, tx, k.Private)
		if err != nil {
			return nil, err
		}
		view := apiv1.SecretView{Name: gatewayHostKey, ID: id, State: apiv1.SecretInUse, Since: k.From}
		if i > 0 {
			view.State, view.Waits = apiv1.SecretNext, k.From.UTC().Format(time.RFC3339)
		}
		items = append(items, view)
	}
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	dependents, err := authority.Dependents(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		name, kind := a.credentialOf(c)
		if kind == "" {
			continue
		}
		view := apiv1.SecretView{Name: name, State: apiv1.SecretInUse}
		if view.Since, err = cluster.CredentialAt(ctx, tx, c.ID); err != nil {
			return nil, err
		}
		if view.ID, err = idOf(ctx, tx, c.Credential); err != nil {
			return nil, err
		}
		var behind []string
		for _, d := range dependents {
			if d.Up && d.Revision < d.Told && strings.HasPrefix(d.Name, c.Project+"/"+c.Name+" ") {
				behind = append(behind, d.Name)
			}
		}
		view.Waits = strings.Join(behind, ", ")
		items = append(items, view)
	}
	known, err := tx.SiteKeys(ctx)
	if err != nil {
		return nil, err
	}
	for i, k := range known {
		view := apiv1.SecretView{Name: "site-key", ID: k.ID, Generation: k.Number, State: apiv1.SecretInUse, Since: k.Since}
		if i > 0 {
			view.State, view.Waits = apiv1.SecretFormer, fmt.Sprintf("%d secrets are to be sealed again", k.Boxes)
		}
		items = append(items, view)
	}
	return items, nil
}

// idOf names a secret without telling anything of it.
func idOf(ctx context.Context, tx *core.Tx, s core.Secret) (string, error) {
	plain, err := tx.Reveal(ctx, s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte("muster secret\x00"), plain...))
	return hex.EncodeToString(sum[:6]), nil
}

func (a *API) listSecrets(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Secrets], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Secrets) (err error) {
		out.Items, err = a.secretsOf(ctx, tx)
		return err
	})
}

func (a *API) rotateSecrets(ctx context.Context, in *apiv1.RotateSecretsInput) (*output[apiv1.Secrets], error) {
	order := rotation.Order{Now: in.Body.Now, By: identityOf(ctx)}
	var err error
	if order.Announce, err = whileOf("announce", in.Body.Announce); err != nil {
		return nil, err
	}
	if order.Keep, err = whileOf("keep", in.Body.Keep); err != nil {
		return nil, err
	}
	deadline, err := whileOf("deadline", in.Body.Deadline)
	if err != nil {
		return nil, err
	}
	if deadline != nil {
		order.Deadline = max(*deadline, time.Second)
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Secrets) error {
		order := order // a transaction may run again
		clusters, host, err := a.named(ctx, tx, in.Body.Names, &order)
		if err != nil {
			return err
		}
		if len(order.Uses) > 0 {
			if err := rotation.Begin(ctx, tx, order); errors.Is(err, rotation.ErrUnderWay) {
				return conflict(err.Error(), "`muster secrets list` says what it waits for")
			} else if err != nil {
				return err
			}
		}
		for _, c := range clusters {
			credential := a.Admission.Schedulers.Of(c.Spec.Scheduler()).Caps.Credential
			key := make([]byte, credential.Bytes)
			_, _ = rand.Read(key)
			if err := cluster.ChangeCredential(ctx, tx, c.ID, core.NewSecret(key)); err != nil {
				return err
			}
			tx.Log(core.Event{Type: "secrets.rotated", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
				Text: fmt.Sprintf("the cluster's %s key changes, by %s", credential.Name, order.By)})
		}
		if host {
			if err := a.nextHostKey(ctx, tx, order); err != nil {
				return err
			}
		}
		out.Items, err = a.secretsOf(ctx, tx)
		return err
	})
}

// nextHostKey makes the gateways' next host key, if there is none yet.
func (a *API) nextHostKey(ctx context.Context, tx *core.Tx, o rotation.Order) error {
	keys, err := authority.GatewayKeys(ctx, tx)
	if err != nil || len(keys) > 1 && !o.Now {
		return err
	}
	after := 7 * 24 * time.Hour
	if o.Announce != nil {
		after = *o.Announce
	}
	line, private, err := identity.NewHostKey()
	if err != nil {
		return err
	}
	if o.Now {
		after = 0
	}
	if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: line, Private: core.NewSecret([]byte(private))},
		after); err != nil {
		return err
	}
	if o.Now {
		err = authority.ForgetGatewayKeys(ctx, tx)
	}
	return err
}

// named reads names of secrets.
func (a *API) named(ctx context.Context, tx *core.Tx, names []string, o *rotation.Order) (chosen []cluster.Cluster, host bool,
	err error) {
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return nil, false, err
	}
	known := lists.Map(identity.Uses(), rotation.Name)
	var kinds, patterns []string // of credentials
	for _, s := range a.Admission.Schedulers {
		if kind := s.Caps.Credential.Name; kind != "" {
			kinds, patterns = append(kinds, kind), append(patterns, kind+"/PROJECT/CLUSTER")
		}
	}
	uses := map[identity.Use]bool{}
	for _, name := range names {
		found := false
		for _, use := range identity.Uses() {
			if name == rotation.Name(use) || name == "root" || name == "all" {
				uses[use], found = true, true
			}
		}
		if name == gatewayHostKey || name == "all" {
			host, found = true, true
		}
		for _, c := range clusters {
			credential, kind := a.credentialOf(c)
			if kind == "" || name != "all" && name != kind && name != credential {
				continue
			}
			found = true
			if !slices.ContainsFunc(chosen, func(other cluster.Cluster) bool { return other.ID == c.ID }) {
				chosen = append(chosen, c)
			}
		}
		if !found && !slices.Contains(kinds, name) {
			return nil, false, notFound(fmt.Sprintf("there is no secret %q", name),
				"there are all, root, "+strings.Join(append(kinds, gatewayHostKey), ", ")+", "+strings.Join(known, ", ")+", and "+
					strings.Join(patterns, ", ")+"; the site key is changed by `muster secrets rekey`")
		}
	}
	for _, use := range identity.Uses() {
		if uses[use] {
			o.Uses = append(o.Uses, use)
		}
	}
	return chosen, host, nil
}

// whileOf reads a time that may be left out.
func whileOf(field, text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := duration.Within(text, 0, 365*24*time.Hour)
	if err != nil {
		return nil, badDuration(field, err)
	}
	return &d, nil
}

func (a *API) rekeySecrets(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Secrets], error) {
	err := a.DB.Rekey(ctx)
	if errors.Is(err, core.ErrSameKey) {
		return nil, conflict(err.Error(),
			"put a new key before the old one: a line more in the key file, above the others, or before what the key command "+
				"prints; keep the old line until `muster secrets list` has one site-key")
	}
	if err != nil {
		return nil, err
	}
	return a.listSecrets(ctx, nil)
}
