// The Lua scripts of scripts/*.lua, each preceded by the parts of scripts/shared that it
// uses.
#pragma once

namespace dlock::redis {

struct Script {
  const char* text;
  const char* sha1;  // by which EVALSHA calls it
};

extern const Script ask_script;
extern const Script renew_script;
extern const Script reclaim_script;
extern const Script release_script;
extern const Script break_script;
extern const Script inspect_script;
extern const Script remove_expired_script;
extern const Script put_piece_script;
extern const Script put_value_script;
extern const Script history_script;
extern const Script set_lease_script;
extern const Script admit_fence_script;
extern const Script limit_script;
extern const Script look_at_limit_script;
extern const Script withdraw_script;

}  // namespace dlock::redis
