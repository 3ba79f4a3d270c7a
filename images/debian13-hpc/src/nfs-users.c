/*
 * Loaded into nfs-ganesha before its libraries: a call in the name of a user whom /etc/passwd does not have is refused.
 *
 * Version 4 does that by itself where it looks up a caller's groups (Manage_Gids). Version 6 goes on as that user, only
 * without groups (set_extended_groups in its nfs_creds.c), and has no setting for it. Root passes: the export makes it nobody.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <rpc/rpc.h>
#include <rpc/auth_unix.h>
#include <rpc/svc_auth.h>

static enum auth_stat (*authenticate)(struct svc_req *, bool *);

__attribute__((constructor)) static void find(void)
{
    authenticate = (__typeof__(authenticate))dlsym(RTLD_NEXT, "svc_auth_authenticate");
    if (!authenticate)
        abort();
}

/* known says whether /etc/passwd has the user now. Each thread remembers its last answer until that file is another one. */
static bool known(uid_t uid)
{
    static _Thread_local struct {
        uid_t uid;
        bool known;
        ino_t file;
        struct timespec changed;
    } last;
    struct stat now;
    if (stat("/etc/passwd", &now))
        return false;
    if (last.uid != uid || last.file != now.st_ino || last.changed.tv_sec != now.st_mtim.tv_sec ||
        last.changed.tv_nsec != now.st_mtim.tv_nsec) {
        struct passwd user, *found = NULL;
        char text[4096];
        getpwuid_r(uid, &user, text, sizeof text, &found);
        last.uid = uid;
        last.known = found != NULL;
        last.file = now.st_ino;
        last.changed = now.st_mtim;
    }
    return last.known;
}

/* svc_auth_authenticate stands before that of libntirpc, which nfs-ganesha calls once for each request. */
enum auth_stat svc_auth_authenticate(struct svc_req *call, bool *no_dispatch)
{
    enum auth_stat result = authenticate(call, no_dispatch);
    if (result != AUTH_OK || call->rq_msg.cb_cred.oa_flavor != AUTH_SYS)
        return result;
    uid_t uid = ((struct authunix_parms *)call->rq_msg.rq_cred_body)->aup_uid;
    return uid == 0 || known(uid) ? AUTH_OK : AUTH_REJECTEDCRED;
}
