-- SPDX-License-Identifier: MIT
-- trapline.lua - nvim-dap with `trapline dap`: dofile() it after nvim-dap is loaded. Logpoints are set by
-- require('dap').set_breakpoint(nil, nil, 'text {expr}'). The process never stops.
local dap = require('dap')

-- Breakpoints in code need root: sudo must not ask, or Neovim itself runs as root.
local function command()
  if vim.loop.getuid() == 0 then
    return 'trapline', { 'dap' }
  end
  return 'sudo', { '-n', 'trapline', 'dap' }
end

dap.adapters.trapline = function(callback)
  local program, arguments = command()
  callback({ type = 'executable', command = program, args = arguments })
end

-- A race of the console's `race` is a diagnostic at both of its lines.
local races = vim.api.nvim_create_namespace('trapline_races')

local function diagnose(place, title)
  if not place.path then return end
  local buffer = vim.fn.bufadd(place.path)
  vim.fn.bufload(buffer)
  local all = vim.diagnostic.get(buffer, { namespace = races })
  table.insert(all, {
    lnum = math.max(place.line - 1, 0),
    col = 0,
    severity = vim.diagnostic.severity.WARN,
    source = 'trapline',
    message = title .. ': ' .. place.text,
  })
  vim.diagnostic.set(races, buffer, all)
end

dap.listeners.after.event_initialized.trapline_races = function()
  vim.diagnostic.reset(races)
end

dap.listeners.after.event_traplineRace.trapline_races = function(_, race)
  diagnose(race.first, race.title)
  diagnose(race.second, race.title)
end

local attach = {
  type = 'trapline',
  request = 'attach',
  name = 'trapline: attach',
  pid = function()
    return tonumber(vim.fn.input('process: '))
  end,
}

for _, language in ipairs({ 'c', 'cpp', 'rust', 'go' }) do
  dap.configurations[language] = dap.configurations[language] or {}
  table.insert(dap.configurations[language], attach)
end
