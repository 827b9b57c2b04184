-- Takes the lock from some of its holders: marks and notifies those that renew their leases, and
-- removes the leases that are not renewed; by force, removes all of them.
--
-- ARGV: who takes it, as JSON; 'broken_by', or 'forced_by'; and then fences; 0 is a holder of
-- another program. Answers {now, holders}, as in inspect.lua.
--
-- uses: turns expiry taking
local wanted = {}
for i = 3, #ARGV do wanted[tonumber(ARGV[i])] = true end

remove_expired()
local shown = {}
local function show(text, left)
  shown[#shown + 1] = text
  shown[#shown + 1] = left
end

if is_foreign() then
  if wanted[0] then
    show('foreign', redis.call('PTTL', key))
    take_from_foreign(ARGV[2], ARGV[1])
  end
else
  redis.call('PEXPIRE', H, kept_ms) -- with memory full the first write must be one like this
  for token, h in pairs(holders) do
    if not h.promise and wanted[h.fence] then
      local ends = value == token and redis.call('PTTL', key) or math.ceil((h.ends - now) / 1000)
      show(holder_text(h), ends)
      take_from(token, h, ARGV[2], ARGV[1])
    end
  end
  drop_marker()
end
promise_to_the_next() -- also what remove_expired() has freed
return { int(now), shown }
