exports.handle = (event) => ({ resized: event.name ?? null });
