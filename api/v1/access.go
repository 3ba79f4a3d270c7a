package v1

import "time"

// TunnelProtocol is what a client asks to upgrade to for a tunnel.
const TunnelProtocol = "muster-tunnel"

// Key is an SSH public key of the caller.
type Key struct {
	Fingerprint string    `json:"fingerprint"`
	Line        string    `json:"line" doc:"authorized_keys format"`
	CreatedAt   time.Time `json:"created_at"`
	Unapplied   []string  `json:"unapplied,omitempty" doc:"when it is added: clusters that do not know it yet, and why; they try again"`
}

// Certificate lets the holder of a key into one cluster for a few minutes.
type Certificate struct {
	Certificate string `json:"certificate" doc:"OpenSSH user certificate"`
	Account     string `json:"account" doc:"the user's name on the cluster's nodes"`
	HostCA      string `json:"host_ca" doc:"signs the host certificates of the cluster's nodes, authorized_keys format"`
	Head        string `json:"head" doc:"host name of the head node"`
}

// AddKeyInput is what AddKey takes.
type AddKeyInput struct {
	Body AddKeyBody
}

// AddKeyBody is the body of a AddKeyInput.
type AddKeyBody struct {
	Line  string `json:"line" doc:"the content of the .pub file" maxLength:"16384"`
	Proof string `json:"proof,omitempty" doc:"an SSH signature of your name, by the key: printf %s NAME | ssh-keygen -Y sign -n muster-key -f KEY" maxLength:"16384"`
}

// KeyProofNamespace is that of the SSH signature which shows that somebody has a key.
const KeyProofNamespace = "muster-key"

// DeleteKeyInput is what DeleteKey takes.
type DeleteKeyInput struct {
	Fingerprint string `path:"fingerprint" doc:"SHA256:…, percent-encoded" maxLength:"100"`
}

// CertifyInput is what Certify takes.
type CertifyInput struct {
	ClusterRef
	Body CertifyBody
}

// CertifyBody is the body of a CertifyInput.
type CertifyBody struct {
	PublicKey string `json:"public_key" doc:"authorized_keys format" maxLength:"16384"`
}

// TunnelInput is what Tunnel takes.
type TunnelInput struct {
	ClusterRef
	Node    string `query:"node" doc:"host name; empty: the head" maxLength:"63"`
	Upgrade string `header:"Upgrade"`
}

// TerminalProtocol is the WebSocket subprotocol of terminals.
const TerminalProtocol = "muster.terminal.v1"

// TerminalInput is what OpenTerminal takes.
type TerminalInput struct {
	ClusterRef
	Node     string `query:"node" doc:"host name; empty: the head" maxLength:"63"`
	Columns  int    `query:"columns" default:"80" minimum:"1" maximum:"1000"`
	Rows     int    `query:"rows" default:"24" minimum:"1" maximum:"500"`
	Terminal string `query:"terminal" doc:"ID of one that the same browser has opened there; empty: a new one" maxLength:"64"`
	From     int64  `query:"from" doc:"show it from this byte on, of all that it has shown; the last 256 KiB are kept" minimum:"0"`
	Upgrade  string `header:"Upgrade"`
}

// Web is the door for web apps.
type Web struct {
	Domain string `json:"domain" doc:"the domain that the apps' host names end in"`
	CA     string `json:"ca,omitempty" doc:"certificate of the CA that browsers have to trust, in PEM; absent if the web door has a certificate of its own"`
}

// WebApp is a web application of a cluster.
type WebApp struct {
	Name string `json:"name"`
	Node string `json:"node"`
	Port int    `json:"port"`
	URL  string `json:"url,omitempty" doc:"its address, for browsers that have signed in; absent if the site has no web door"`
}

// Opened is what signs a browser in to an app.
type Opened struct {
	URL       string    `json:"url" doc:"open it in a browser; it works once"`
	ExpiresAt time.Time `json:"expires_at"`
	App       string    `json:"app"`
}

// OpenAppInput is what OpenApp takes.
type OpenAppInput struct {
	ClusterRef
	App string `path:"app" doc:"its name in the cluster's file" maxLength:"63"`
}

// Ways is how one logs in at this site.
type Ways struct {
	Issuer   string   `json:"issuer" doc:"URL of the OpenID Connect provider"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
	Auth     string   `json:"authorization_endpoint" doc:"the URL to which the browser is sent"`
	Device   string   `json:"device_authorization_endpoint,omitempty" doc:"URL that issues device codes; absent: log in with a browser on the same host"`
	Token    string   `json:"token_endpoint,omitempty" doc:"URL that exchanges a device code for a token"`
	Port     int      `json:"redirect_port,omitempty" doc:"port of 127.0.0.1 to which the provider redirects the browser; absent: any"`
	For      string   `json:"for" doc:"how long a login lasts"`
}

// LoggedIn is a login: a token and, for a key, a certificate of the same life.
type LoggedIn struct {
	ID          string    `json:"id" doc:"of the token; deleting it ends the login and the certificate"`
	Token       string    `json:"token"`
	Person      string    `json:"person"`
	New         bool      `json:"new,omitempty" doc:"the person has logged in for the first time and is in no project yet"`
	ExpiresAt   time.Time `json:"expires_at"`
	Certificate string    `json:"certificate,omitempty" doc:"OpenSSH user certificate, for the site's gateway only"`
}

// ProofGiven is what an OpenID Connect provider gave to somebody who logs in: an ID token, or the code of a browser.
type ProofGiven struct {
	IDToken string `json:"id_token,omitempty" doc:"the ID token that the device flow gave" maxLength:"32768"`
	CodeGiven
	PublicKey string `json:"public_key,omitempty" doc:"the public key to certify, authorized_keys format" maxLength:"16384"`
	Name      string `json:"name,omitempty" doc:"host from which somebody logs in, for the list of tokens" maxLength:"100"`
}

// CodeGiven is what an OpenID Connect provider gave to a browser, with what belongs to it.
type CodeGiven struct {
	Code     string `json:"code,omitempty" doc:"the code with which the browser was redirected" maxLength:"4096"`
	Verifier string `json:"verifier,omitempty" doc:"with code: of PKCE" maxLength:"128"`
	Redirect string `json:"redirect,omitempty" doc:"with code: the redirect URL that was used" maxLength:"200"`
	Nonce    string `json:"nonce,omitempty" doc:"with code: the nonce that the ID token must contain" maxLength:"128"`
}

// LogInInput is what LogIn takes.
type LogInInput struct {
	Body ProofGiven
}

// ConsoleOpened signs a browser in to the console.
type ConsoleOpened struct {
	Path      string    `json:"path" doc:"open it in a browser, at the address of the controller; it works once"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Credential is what signs a browser in to the console: one of its fields.
type Credential struct {
	Token    string     `json:"token,omitempty" maxLength:"200"`
	Code     string     `json:"code,omitempty" doc:"of an address that open-console has made" maxLength:"200"`
	Provider *CodeGiven `json:"provider,omitempty" doc:"what the site's OpenID Connect provider gave to the browser, as for log-in"`
}

// SignInInput is what SignIn takes.
type SignInInput struct {
	Body Credential
}

// SignOutInput is what SignOut takes.
type SignOutInput struct {
	All bool `query:"all" doc:"sign out all browsers in which you are signed in to the console, instead of this one"`
}

// SignedIn is who a browser is signed in as, until when. The cookie comes beside it.
type SignedIn struct {
	Person    string    `json:"person"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Session is one connection through an SSH gateway to one place.
type Session struct {
	ID         string     `json:"id"`
	Person     string     `json:"person"`
	Credential string     `json:"credential" doc:"fingerprint of a key, or ID of a login"`
	Project    string     `json:"project"`
	Kind       string     `json:"kind" doc:"where it leads: cluster, or external for an external cluster"`
	Place      string     `json:"place"`
	What       string     `json:"what" doc:"shell, exec, sftp, forward, jump; several with commas"`
	Remote     string     `json:"remote" doc:"address it came from"`
	BeganAt    time.Time  `json:"began_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty" doc:"absent while it is open"`
	Received   int64      `json:"received" doc:"bytes from the person; for an open session, as of some seconds ago"`
	Sent       int64      `json:"sent"`
	Outcome    string     `json:"outcome,omitempty" doc:"how it ended"`
	Recorded   bool       `json:"recorded,omitempty" doc:"its terminals were recorded"`
}

// Gateway is what people and their SSH clients have to know of the SSH gateway.
type Gateway struct {
	Address   string       `json:"address,omitempty" doc:"host:port; absent: the gateway of this controller has no port"`
	GatewayCA string       `json:"gateway_ca" doc:"signs the host certificates of gateways, authorized_keys format"`
	HostCA    string       `json:"host_ca" doc:"signs the host certificates of nodes, valid for NODE.CLUSTER.PROJECT.muster and shorter names; authorized_keys format"`
	Keys      []GatewayKey `json:"keys" doc:"the current host key, then those that will replace it"`
	Account   string       `json:"account" doc:"the caller's on nodes"`
}

// GatewayKey is a host key of the gateways.
type GatewayKey struct {
	Line string    `json:"line" doc:"authorized_keys format"`
	From time.Time `json:"from" doc:"when it was taken or will be taken into use"`
}

// ListSessionsInput is what ListSessions takes.
type ListSessionsInput struct {
	Ended  bool   `query:"ended" doc:"also sessions that have ended"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}

// EndSessionInput is what EndSession takes.
type EndSessionInput struct {
	Session string `path:"session" doc:"ID" maxLength:"40"`
}

// RotateGatewayKeyInput is what RotateGatewayKey takes.
type RotateGatewayKeyInput struct {
	After string `query:"after" default:"7d" doc:"how long the next key is announced before it replaces the current one, as in 12h or 7d" maxLength:"20"`
}

// Token lets its bearer act as you.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name" doc:"what it is for"`
	Kind      TokenKind `json:"kind" enum:"local,api,login"`
	Scope     Scope     `json:"scope"`
	Project   string    `json:"project,omitempty" doc:"the only project that it is for"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	UsedAt    time.Time `json:"used_at,omitzero" doc:"when it was last used, to the minute"`
	Token     string    `json:"token,omitempty" doc:"the token itself, shown only once, when it is made"`
}

// NewToken is what is asked of a token.
type NewToken struct {
	Name    string `json:"name" doc:"what it is for" minLength:"1" maxLength:"100"`
	Scope   Scope  `json:"scope,omitempty" default:"all" doc:"read: it cannot change anything or log in to clusters"`
	Project string `json:"project,omitempty" doc:"limit the token to this project" maxLength:"63"`
	For     string `json:"for,omitempty" doc:"how long it is valid, as in 12h or 30d; default 90d, at most 366d" maxLength:"20"`
}

// AddTokenInput is what AddToken takes.
type AddTokenInput struct {
	Body NewToken
}

// AddPersonTokenInput is what AddPersonToken takes.
type AddPersonTokenInput struct {
	PersonRef
	Body NewToken
}

// DeleteTokenInput is what DeleteToken takes.
type DeleteTokenInput struct {
	Token string `path:"token" doc:"its ID" maxLength:"63"`
}

// TokenKind is where a token comes from.
type TokenKind string

// The kinds.
const (
	LocalToken TokenKind = "local" // lies in the data directory; never expires
	APIToken   TokenKind = "api"   // made by its person
	LoginToken TokenKind = "login" // of an OIDC login
)
