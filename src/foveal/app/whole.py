from foveal.whole import expect_folder, write_whole  # noqa: F401
