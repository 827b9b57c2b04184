-- The claim of ask.lua.
--
-- ARGV: token; the waiter's id; mode (x or s, followed by d for a detached lease, n for
-- --supersede, r for --replace, h for --spread, and p with a number for --priority); slots; ttl in ms; whether to join the queue (1, 0, or 2: count the
-- claim as refused if it would have to wait; 1 may be followed by the maximum number of waiters,
-- beyond which the claim is refused and counted); the claimant as JSON; the deduplication rule or
-- nothing; the server's time when the claim first came, if it had a place in the queue; a fence
-- that the granted one must exceed (or 0), even if the claim already has the lease; then the fences
-- that outer runs hold. In a quorum the time is preceded by = and is the order in the queue,
-- whatever this server's clock says; and the fence is preceded by = if it is to be granted (see
-- store/redis/script_calls.hpp), by ^ if an existing lease of the caller is to be raised to it, or by !
-- if the lease is known to hold with exactly this fence.
--
-- uses: state

local token, id, wanted, ttl = ARGV[1], ARGV[2], number(ARGV[4]), number(ARGV[5])
local function is_marked(letter) return string.find(ARGV[3], letter, 2, true) ~= nil end
local mode, detached = string.sub(ARGV[3], 1, 1), is_marked('d')
local supersedes, replaces = is_marked('n'), is_marked('r')
local spreads, priority = is_marked('h'), tonumber(string.match(ARGV[3], 'p(-?%d+)$') or 0)
local join, refuse = string.sub(ARGV[6], 1, 1) == '1', ARGV[6] == '2'
local info, dedupe = ARGV[7], ARGV[8] ~= '' and ARGV[8]
local max_queue = tonumber(string.sub(ARGV[6], 3)) -- or nil
local ticket = tonumber(string.match(ARGV[9], '^=(%d+)$'))
local arrived = ticket or tonumber(ARGV[9])
local kind, wanted_fence = string.match(ARGV[10], '^([=^!])(%d+)$')
local voted, is_repair = tonumber(wanted_fence), kind == '!' -- nil unless in a quorum
local floor = voted or tonumber(ARGV[10])
